"""Whether an executor has what the worker has: Python, this package, PySpark. Its daemon looks before it imports more.

The worker's versions come in a variable of the executors (cluster_settings); with a local master there is none.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "MIRROR_CONNECT_WORKER_HAS"
# Begins the one line of a daemon that ends at once; behind it stands what its executor has.
OUR_LINE: Final = "mirror-connect: this executor "
ADVICE: Final = (
    "mirror-connect spark-archive packs what is needed; or give executors an image with it, or spark.pyspark.python"
)
PYTHON: Final = "Python"
PRODUCT: Final = "mirror-connect"
SPARK: Final = "PySpark"
# How much of a version has to be equal. Of Python as Spark has it: pickled functions are of one minor version.
_PARTS: Final[Mapping[str, int | None]] = {PYTHON: 2, SPARK: 2, PRODUCT: None}
_ADVICE: Final[Mapping[str, str]] = {
    PYTHON: "Use the same minor version at both: mirror-connect spark-archive packs the worker's",
    PRODUCT: "Pack the executors' environment again with mirror-connect spark-archive, or renew their image",
    SPARK: "Use the same release of Spark at both",
}


def versions() -> dict[str, str]:
    """What this process has. An executor's JVM and Python understand each other by the PySpark that its Spark brings."""
    python = ".".join(map(str, sys.version_info[:3]))
    archived = _archived_pyspark()
    installed = _installed("pyspark")
    return {PYTHON: python, PRODUCT: _installed(PRODUCT) or "unknown", SPARK: archived or installed or "unknown"}


def wanted_variable() -> str:
    """The value of the variable, made by the worker's driver."""
    return json.dumps(versions(), separators=(",", ":"))


def difference(environment: Mapping[str, str], here: Mapping[str, str] | None = None) -> str | None:
    """What this executor has and the worker does not, and what to do, behind the executor's name; None if they fit."""
    given = environment.get(VARIABLE)
    if not given:
        return None
    here = versions() if here is None else here
    for what, worker in json.loads(given).items():
        if _part(what, here[what]) != _part(what, worker):
            return f"has {what} {here[what]}, and the worker has {worker}. {_ADVICE[what]}"
    return None


def _part(what: str, found: str) -> list[str]:
    return found.split(".")[: _PARTS[what]]


def _installed(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 — of no use with a local master

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _archived_pyspark() -> str | None:
    """Of the archive that Spark puts into the path of modules; None where there is none."""
    import zipfile  # noqa: PLC0415 — see above

    for place in sys.path:
        if Path(place).name == "pyspark.zip":
            with contextlib.suppress(OSError, zipfile.BadZipFile, KeyError), zipfile.ZipFile(place) as archive:
                found = re.search(r"[\d.]+\w*", archive.read("pyspark/version.py").decode())
                return found and found[0]
    return None
