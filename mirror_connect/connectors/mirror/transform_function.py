"""The user's function that a source connector applies to its records (`spark.transform.python`): what a config says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TransformFunction:
    """`name`: `package.module:function`. `secret_names`: sorted, as they are in the config."""

    name: str
    secret_names: tuple[str, ...] = ()
    # By their names. They go from the worker to the task, and from there with the records.
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def objects(self) -> tuple[str, ...]:
        """None of the columns of `records`: a function gets bytes."""
        return ()

    def to_json(self) -> dict[str, Any]:
        """What Spark's driver may know of it: no value of a secret."""
        return {"function": self.name, "secret_names": list(self.secret_names)}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> TransformFunction:
        """See `to_json`."""
        return TransformFunction(found["function"], tuple(found["secret_names"]))
