"""Opens one store in a process of its own and ends: `python -m mirror_connect.kafka_io.client.store_process`, by stores.py.

Standard input: a JSON object that says what to open, with what password, and the limits. Standard output: `{"answer"}` or
`{"problem": [setting, value, problem]}`. The kernel ends what computes too long, also while OpenSSL holds the interpreter.
"""

from __future__ import annotations

import base64
import json
import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.user_code.hidden_memory import hide_memory


def main() -> None:
    """Reads the job, answers it."""
    hide_memory()
    job = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    # The soft limit's signal ends the process; the hard one is for who would ignore it.
    resource.setrlimit(resource.RLIMIT_CPU, (job["processor_s"], job["processor_s"] + 1))
    try:
        told = {"answer": _opened(job)}
    except ConfigError as error:
        told = {"problem": [error.name, error.value, error.problem]}
    json.dump(told, sys.stdout)


def _opened(job: Mapping[str, Any]) -> Any:
    from mirror_connect.kafka_io.client import store_formats, stores  # noqa: PLC0415 — within the limits

    match job["what"]:
        case "certificates":
            return store_formats.certificates(job["setting"], job["text"])
        case "private_key":
            return store_formats.private_key(job["setting"], job["text"], job["password"])
        case what:
            store = store_formats.OpenStore(stores.Store(**job["store"]), base64.b64decode(job["content"]))
            return store.trusted() if what == "trusted" else asdict(store.key_pair())


if __name__ == "__main__":
    main()
