"""The properties of the Spark application that applies statements: `spark.transform.NAME` is `spark.NAME` there.

With a local master it is one of its own, beside the one whose tasks copy bytes. Its JVM computes: it needs memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.spark_masters import is_local

PREFIX: Final = "spark.transform."
_MEMORY: Final = "driver.memory"
DEFAULT_MEMORY: Final = "1g"


def properties_of(spark: Mapping[str, str], *, statements: bool) -> dict[str, str]:
    """Those of one application. `spark`: the worker's; `statements`: whether this one applies statements."""
    common = {name: value for name, value in spark.items() if not name.startswith(PREFIX)}
    if not statements or not is_local(spark.get("spark.master", "local")):
        return common
    own = {name.removeprefix(PREFIX): value for name, value in spark.items() if name.startswith(PREFIX)}
    return common | {f"spark.{name}": value for name, value in ({_MEMORY: DEFAULT_MEMORY} | own).items()}
