"""The result of a check: one finding for each property, and the links that `verify` can compare. Also as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.check.judgement import Verdict

# As an installed package has it.
PROGRAM: Final = ("mirror-connect",)


@dataclass(frozen=True, slots=True)
class Finding:
    """A property. `line`: None if the property is missing or its source has no lines. `value`: without secrets."""

    verdict: Verdict
    line: int | None
    name: str
    value: str | None
    text: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A worker's properties, a connector's config or an mm2.properties file. `kind`: for people.

    Several parts of a file may have one name.
    """

    name: str
    kind: str
    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class VerifyLink:
    """A link that MirrorMaker runs today, and the options of `mirror-connect verify` for it.

    `clients`: options of client properties (`--source`) → alias of the cluster in the checked file. `note`: which files the
    user has to write first; empty if the command can be run as it is. `impossible`: why there is no
    command; empty if there is one. `client_of`: gives the client properties of an alias,
    or raises ConfigError; None for a link without `clients`.
    """

    name: str
    options: tuple[str, ...]
    file: str = ""
    clients: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    impossible: str = ""
    client_of: Callable[[str], Mapping[str, str] | None] | None = field(default=None, repr=False, compare=False)

    def command(self, program: Sequence[str] = PROGRAM) -> str:
        """For a shell. `program`: the words that start `mirror-connect`."""
        clients = (
            f"{option} <({shlex.join((*program, 'check', self.file, '--client', alias))})"
            for option, alias in self.clients.items()
        )
        return " ".join((shlex.join((*program, "verify", *self.options)), *clients))


@dataclass(frozen=True, slots=True)
class Report:
    """Of one file or URL. `kind`: as docs/check.md has them. `notes`: lines for people."""

    checked: str
    kind: str
    parts: Sequence[Part]
    links: Sequence[VerifyLink] = ()
    notes: Sequence[str] = ()

    @property
    def findings(self) -> list[Finding]:
        """Those of all parts."""
        return [finding for part in self.parts for finding in part.findings]

    def count(self, verdict: Verdict) -> int:
        """How many findings there are of a verdict."""
        return sum(finding.verdict is verdict for finding in self.findings)

    def as_json(self, program: Sequence[str] = PROGRAM) -> dict[str, Any]:
        """See docs/check.md. `program`: the words that start `mirror-connect`."""
        return {
            "checked": self.checked,
            "kind": self.kind,
            "refused": self.count(Verdict.REFUSED),
            "different": self.count(Verdict.DIFFERENT),
            "not_judged": self.count(Verdict.NOT_JUDGED),
            "same": self.count(Verdict.SAME),
            "notes": list(self.notes),
            "parts": [
                {
                    "name": part.name,
                    "kind": part.kind,
                    "properties": [_finding(finding) for finding in part.findings],
                }
                for part in self.parts
            ],
            "links": [
                {
                    "name": link.name,
                    "verify": None if link.impossible else link.command(program),
                    "first": link.impossible or link.note or None,
                }
                for link in self.links
            ],
        }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "line": finding.line,
        "property": finding.name,
        "value": finding.value,
        "here": str(finding.verdict),
        "text": finding.text or None,
        "instead": finding.instead or None,
    }
