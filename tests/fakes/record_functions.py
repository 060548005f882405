"""Functions of records, as users write them (docs/python-transform.md), right ones and wrong ones."""

from __future__ import annotations

import hashlib
import json
import os
import time
from json import dumps as _imported
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

MODULE: Final = __name__
dumps = _imported
NO_FUNCTION: Final = 7


def endless(records: Any) -> Any:
    """Never returns for records from offset 5 on."""
    while any(offset >= 5 for offset in records["offset"].to_pylist()):
        time.sleep(60)
    return records


def unchanged(records: Any) -> Any:
    """All columns as they came."""
    return records


def mask(records: Any) -> dict[str, Any]:
    """Hashes e-mail addresses in JSON, and keeps records of the EU and tombstones alone."""
    values, keep = [], []
    salt = records["secrets"][0].as_py()["SALT"] if len(records) and "secrets" in records.schema.names else ""
    for text in records["value"].to_pylist():
        if text is None:
            values.append(None)
            keep.append(True)
            continue
        row = json.loads(text)
        row["email"] = hashlib.sha256((salt + row["email"]).encode()).hexdigest()
        values.append(json.dumps(row).encode())
        keep.append(row["country"] == "EU")
    return {"value": pa.array(values, pa.binary()), "keep": keep}


def everything(records: Any) -> dict[str, Any]:
    """Changes all that may change."""
    return {
        "key": pc.cast(records["topic"], pa.binary()),
        "value": [b"new"] * len(records),
        "headers": [[{"key": "offset", "value": b"%d" % each}] for each in records["offset"].to_pylist()],
        "timestamp": pc.cast(pc.add(pc.cast(records["timestamp"], pa.int64()), 1000), pa.timestamp("us", "UTC")),
    }


def at_odd_offsets(records: Any) -> Any:
    """Raises for a batch of several records, and changes single ones at odd offsets."""
    if len(records) > 1:
        raise ValueError("one at a time")
    odd = records["offset"][0].as_py() % 2
    return {"key": [b"odd"], "headers": [[]], "timestamp": records["timestamp"]} if odd else {"value": ["even"]}


def bad_at_tens(records: Any) -> Any:
    """Raises at each tenth record, and gives another one an error of its own."""
    offsets = records["offset"].to_pylist()
    if any(each % 10 == 0 for each in offsets):
        raise KeyError("a secret text")
    return {"value": ["x"] * len(offsets), "error": ["no\ncustomer" if each % 10 == 7 else None for each in offsets]}


def too_short(records: Any) -> Any:
    """Returns one value for all records."""
    return {"value": [b"x"]} if len(records) != 1 else {"value": [b"x", b"y"]}


def dies(records: Any) -> Any:
    """Ends its process."""
    os._exit(9)


def dies_with_a_child(records: Any) -> Any:
    """Ends its process, but not one that it has forked. That one has all that its parent had open."""
    if (child := os.fork()) == 0:
        time.sleep(3600)
    Path(os.environ["HOME"], "child").write_text(str(child))
    os._exit(9)


def closes_all(records: Any) -> Any:
    """Closes what it did not open, and goes on."""
    os.closerange(3, 256)
    time.sleep(3600)
