"""The process that opens stores, without the check of their work: only its limits are left."""

from __future__ import annotations

from mirror_connect.kafka_io.client import store_formats, store_process

if __name__ == "__main__":
    store_formats.work_problem = lambda _: None  # type: ignore[assignment, attr-defined]
    store_process.main()
