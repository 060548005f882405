"""Where copies of topics come to lie in a mesh of flows, and whether they are all there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deploy.local import LocalCluster
from tests.e2e.dedicated import Dedicated
from tests.e2e.ends import end_offsets
from tests.e2e.identity_topics import produce
from tests.e2e.reading import values
from tests.waiting import wait_for

RECORDS: Final = 20


def copies(topic: str, flows: Sequence[tuple[str, str]], origins: Sequence[str]) -> dict[str, dict[str, str]]:
    """Where the topic of each origin comes to lie by the rules: cluster → topic there → origin.

    A flow copies all that its source has, but for what was on its target before.
    """
    found: dict[str, dict[str, str]] = {alias: {topic: alias} for alias in origins}
    while True:
        more = [
            (target, f"{source}.{name}", origin)
            for source, target in flows
            for name, origin in found.get(source, {}).items()
            if target not in name.split(".") and f"{source}.{name}" not in found.get(target, {})
        ]
        if not more:
            return found
        for target, name, origin in more:
            found.setdefault(target, {})[name] = origin


@dataclass
class Copies:
    """Clusters by alias, and what lies where by the rules."""

    clusters: Mapping[str, LocalCluster]
    expected: Mapping[str, Mapping[str, str]]

    def produce(self, alias: str, topic: str) -> None:
        """Records that only this cluster has."""
        self.clusters[alias].create_topic(topic, 1)
        produce(self.clusters[alias], topic, ({"value": value, "partition": 0} for value in self.of(alias, topic)))

    @staticmethod
    def of(alias: str, topic: str) -> list[bytes]:
        """The records of a topic's origin."""
        return [f"{alias} {topic} {number}".encode() for number in range(RECORDS)]

    def wait(self, node: Dedicated, seconds: float) -> None:
        """Until every copy is complete."""

        def missing() -> list[str]:
            return [
                f"{topic} on {alias}"
                for alias, topics in self.expected.items()
                for topic in topics
                if end_offsets(self.clusters[alias], topic) != {0: RECORDS}
            ]

        try:
            wait_for(lambda: not missing(), "all copies", seconds, 1.0, lambda: len(missing()))
        except AssertionError as error:
            raise AssertionError(f"{error}; missing: {missing()}\n{node.log_tail()}") from None

    def present(self, alias: str, ending: str) -> set[str]:
        """Topics of a cluster whose names end so."""
        return {name for name in self.clusters[alias].admin().list_topics(timeout=60).topics if name.endswith(ending)}

    def check(self, alias: str, topic: str) -> None:
        """Asserts that a cluster has exactly the copies that it should have, with exactly their origins' records."""
        expected = self.expected.get(alias, {})
        assert self.present(alias, topic) == set(expected)
        for name, origin in expected.items():
            assert values(self.clusters[alias], name, 1) == [self.of(origin, topic)]
