"""Opens one store in a process of its own: stores.py runs `python -m mirror_connect.kafka_io.client.store_process`.

Standard input: a JSON object with what to open, its passwords, and the limits. Standard output: `{"answer"}` or
`{"problem": [setting, value, problem]}`. The kernel ends it when it computes too long, even while OpenSSL blocks Python.
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
    """Reads the job and writes the result."""
    hide_memory()
    job = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    # The soft limit's signal ends the process; the hard limit ends one that ignores the signal.
    resource.setrlimit(resource.RLIMIT_CPU, (job["processor_s"], job["processor_s"] + 1))
    try:
        result = {"answer": _opened(job)}
    except ConfigError as error:
        result = {"problem": [error.name, error.value, error.problem]}
    json.dump(result, sys.stdout)


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
