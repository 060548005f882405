"""The chain of transformations of a source connector: what it does with a remote topic's name and with its records.

A step or a route may have a predicate on the topic. It sees the name as the routes before it have left it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.record_steps import JsonStep, Step, Steps
from mirror_connect.connectors.user_code.bounded_match import BoundedPattern, BoundedReplacement, MatchTooSlow


@dataclass(frozen=True, slots=True)
class TopicPredicate:
    """A predicate on the topic. `setting`: the name of its expression's setting. `negated`: it takes the other topics."""

    pattern: BoundedPattern
    setting: str
    negated: bool = False

    def judge(self, names: Iterable[str]) -> None:
        """Matches these names at once. ConfigError if that takes too long."""
        try:
            self.pattern.judge(names)
        except MatchTooSlow as error:
            raise ConfigError(self.setting, self.pattern.java, str(error)) from None

    def takes(self, name: str) -> bool:
        """Whether it takes a topic. ConfigError."""
        try:
            return self.pattern.matches(name) != self.negated
        except MatchTooSlow as error:
            raise ConfigError(self.setting, self.pattern.java, str(error)) from None


@dataclass(frozen=True, slots=True)
class Route:
    """A RegexRouter: it gives the topic another name. `setting`: the name of its expression's setting."""

    replacement: BoundedReplacement
    setting: str

    def judge(self, names: Iterable[str]) -> None:
        """Replaces these names at once. ConfigError if that takes too long."""
        try:
            self.replacement.judge(names)
        except MatchTooSlow as error:
            raise ConfigError(self.setting, self.replacement.java, str(error)) from None

    def routed(self, name: str) -> str:
        """The new name. ConfigError."""
        try:
            return self.replacement.replaced(name)
        except MatchTooSlow as error:
            raise ConfigError(self.setting, self.replacement.java, str(error)) from None


@dataclass(frozen=True, slots=True)
class Transformation:
    """One transformation of a chain: a step on records, or a route. `topics`: for which names; None: for all."""

    what: Step | JsonStep | Route
    topics: TopicPredicate | None = None

    def takes(self, name: str) -> bool:
        """Whether it applies to a topic that has this name by now. ConfigError."""
        return self.topics is None or self.topics.takes(name)


@dataclass(frozen=True, slots=True)
class Chain:
    """The transformations of a config, in their order."""

    of_all: tuple[Transformation, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.of_all)

    @property
    def routes(self) -> bool:
        """Whether any of them is a route."""
        return any(isinstance(each.what, Route) for each in self.of_all)

    @property
    def keeps_records(self) -> bool:
        """Whether the records stay as they are, because none of them is a step."""
        return all(isinstance(each.what, Route) for each in self.of_all)

    def judge(self, names: Iterable[str]) -> None:
        """Matches remote topics as the policy names them, before they are asked for singly. It may block for seconds.

        ConfigError.
        """
        now = list(dict.fromkeys(names))
        for each in self.of_all:
            if each.topics is not None:
                each.topics.judge(now)
            if isinstance(each.what, Route):
                taken = {name for name in now if each.takes(name)}
                each.what.judge(sorted(taken))
                now = list(dict.fromkeys(each.what.routed(name) if name in taken else name for name in now))

    def routed(self, name: str) -> str:
        """The name that the routes give to a remote topic. ConfigError."""
        for each in self.of_all:
            if isinstance(each.what, Route) and each.takes(name):
                name = each.what.routed(name)
        return name

    def steps(self, name: str, partition: int = -1, *, routed: bool = True, heartbeats: bool = False) -> Steps:
        """What is done with the records of a partition of a remote topic. ConfigError.

        `routed`: whether the routes apply to its name. `heartbeats`: its records are heartbeats, which are no JSON.
        """
        found: list[Step | JsonStep] = []
        for each in self.of_all:
            if not each.takes(name) or (heartbeats and isinstance(each.what, JsonStep)):
                continue
            if isinstance(each.what, JsonStep):
                found.append(each.what.placed(name, partition))
            elif isinstance(each.what, Step):
                found.append(each.what)
            elif routed:
                name = each.what.routed(name)
        return tuple(found)
