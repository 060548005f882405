"""Which topics of a source are copied: those that an expression matches, or all others. Never internal ones."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from mirror_connect.app.mirror_maker.options import WrongOption
from mirror_connect.connectors.user_code.bounded_match import BoundedPattern, MatchTooSlow
from mirror_connect.connectors.user_code.java_characters import JavaRegexError

# Brokers let no client write to these.
INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})


class TopicChoice:
    """See the module. `expression`: Java's, and it has to match the whole name; WrongOption if it is none."""

    def __init__(self, expression: str, *, excludes: bool) -> None:
        try:
            self._pattern = BoundedPattern(expression)
        except JavaRegexError as error:
            remedy = (
                "write .* for all topics" if expression == "*" else "correct it: a Java regular expression is needed"
            )
            raise WrongOption(f"{expression} is an invalid regex: {error}; {remedy}") from None
        self._excludes = excludes

    def chosen(self, topics: Collection[str]) -> frozenset[str]:
        """The topics to copy. Blocking, if the expression is an expensive one. WrongOption if it takes too long."""
        candidates = [topic for topic in topics if topic not in INTERNAL]
        try:
            self._pattern.judge(candidates)
            return frozenset(topic for topic in candidates if self._pattern.matches(topic) is not self._excludes)
        except MatchTooSlow as error:
            raise WrongOption(f"{self._pattern.java} is too expensive a regex: {error}") from None
