"""What is wrong or doubtful in an mm2.properties file, as values; their lines are made here and nowhere else.

`mm2_file.findings(path)` gives all of a file. The dedicated mode prints errors and ends with code 2, and logs warnings;
`mirror-connect check` shows both in its table. Code decides by `Mm2Finding.code`, never by texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from mirror_connect.app.errors import StartupError


class Severity(StrEnum):
    """ERROR: the file is refused. WARNING: it runs, but probably not as its author thinks."""

    ERROR = "ERROR"
    WARNING = "WARNING"


class FindingCode(StrEnum):
    """Kinds of findings; tests and other programs use these names, so they are never changed."""

    # Errors.
    FILE_UNREADABLE = "FILE_UNREADABLE"
    FILE_EMPTY = "FILE_EMPTY"
    CLUSTERS_MISSING = "CLUSTERS_MISSING"
    CLUSTER_NAME_WRONG = "CLUSTER_NAME_WRONG"
    CLUSTER_UNKNOWN = "CLUSTER_UNKNOWN"
    BOOTSTRAP_MISSING = "BOOTSTRAP_MISSING"
    NO_FLOWS = "NO_FLOWS"
    ENDLESS_COPIES = "ENDLESS_COPIES"
    VALUE_INVALID = "VALUE_INVALID"
    EXPRESSION_INVALID = "EXPRESSION_INVALID"
    PROPERTY_MISSING = "PROPERTY_MISSING"
    REFERENCE_UNREADABLE = "REFERENCE_UNREADABLE"
    # Warnings.
    NAME_UNKNOWN = "NAME_UNKNOWN"
    NAME_WITHOUT_EFFECT = "NAME_WITHOUT_EFFECT"
    CLUSTER_REPEATED = "CLUSTER_REPEATED"
    PROPERTY_REPEATED = "PROPERTY_REPEATED"
    COMMENT_IN_VALUE = "COMMENT_IN_VALUE"
    REFERENCE_UNRESOLVED = "REFERENCE_UNRESOLVED"
    TOPIC_SHARED = "TOPIC_SHARED"
    COPIES_UNRECOGNIZED = "COPIES_UNRECOGNIZED"
    SAME_BROKERS = "SAME_BROKERS"
    ONLY_HEARTBEATS = "ONLY_HEARTBEATS"
    NO_CHECKPOINTS = "NO_CHECKPOINTS"


@dataclass(frozen=True, slots=True)
class Mm2Finding:
    """One finding.

    `line`: in the file, from 1 on; None if no line of it is meant. `name`: the property as the file has it; empty for the
    whole file. `value`: as written; None if there is none or it may be secret. `text`, `remedy`: without a full stop.
    """

    severity: Severity
    code: FindingCode
    file: str
    line: int | None
    name: str
    value: str | None
    text: str
    remedy: str = ""

    @property
    def shown(self) -> str:
        """One line for people: file, line, property, value, what is wrong, what to do."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        setting = self.name if self.value is None else f"{self.name}={self.value}"
        parts = [part for part in (place, setting, self.text) if part]
        # A value may have line ends, by \n in the file.
        return " ".join((": ".join(parts) + (f"; {self.remedy}" if self.remedy else "")).split())


class RefusedFile(StartupError):
    """The file has errors. The text has one line for each; `findings` are the errors."""

    def __init__(self, findings: Iterable[Mm2Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(finding.shown for finding in self.findings))
