"""Problems as REST and metrics show them: without secrets, and with the time of their beginning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.secrets import redact

LONGEST_LINE: Final = 500


@dataclass(frozen=True, slots=True)
class ShownProblem:
    """One problem. `since_ms`: since 1970. `task`: None for one of the connector itself."""

    code: ProblemCode
    subject: str
    line: str
    since_ms: int
    task: int | None = None


class PresentProblems:
    """Those of one task, or of one connector itself."""

    __slots__ = ("_given", "_secrets", "more", "shown")

    def __init__(self) -> None:
        self.shown: tuple[ShownProblem, ...] = ()
        self.more = 0
        self._given: tuple[Problem, ...] = ()
        self._secrets: frozenset[str] = frozenset()

    def replace(
        self, problems: Sequence[Problem], more: int, secrets: Iterable[str], now_ms: int, task: int | None = None
    ) -> None:
        """These are the present ones, with `more` others. One that was there before keeps its beginning."""
        given, hidden = tuple(problems), frozenset(secrets)
        self.more = more
        if given == self._given and hidden == self._secrets:
            return  # the usual case, twice a second
        began = {(each.code, each.subject): each.since_ms for each in self.shown}
        found = []
        for each in given:
            subject = redact(each.subject, hidden)
            told = now_ms if each.since is None else int(each.since * 1000)
            # A new attempt of a task begins to count again, but the problem has lasted longer.
            since = min(told, began.get((each.code, subject), told))
            # Cut after redaction, which would not find half a secret.
            found.append(ShownProblem(each.code, subject, redact(each.line, hidden)[:LONGEST_LINE], since, task))
        self.shown, self._given, self._secrets = tuple(found), given, hidden

    def clear(self) -> None:
        """There are none any more, or nobody tells them."""
        self.shown, self.more, self._given, self._secrets = (), 0, (), frozenset()
