"""A replication policy whose names go through the routes of a connector's chain: what RegexRouter means for topics.

In Connect a transformation sees the record when its topic has the name of the policy already. So a route is applied to that
name. Heartbeats keep theirs, as with IdentityReplicationPolicy: their names show the hops, and `heartbeats` on the target is
another topic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mirror_connect.connectors.mirror.chain import Chain
from mirror_connect.connectors.mirror.transforms import chain_of
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy, replication_policy


@dataclass(frozen=True, slots=True)
class RoutedReplicationPolicy(DefaultReplicationPolicy):
    """Another policy, `named`, and a chain that gives its remote topics other names.

    The origin of a topic is read from its name as by the other policy: it does not know copies that lost their prefix.
    """

    named: DefaultReplicationPolicy = field(kw_only=True)
    chain: Chain = field(kw_only=True)

    def judge(self, source_alias: str, topics: Collection[str]) -> None:
        """Finds the names of many topics at once, before `remote_topic`. It may block for seconds. ConfigError."""
        self.chain.judge(self.named.remote_topic(source_alias, topic) for topic in topics)

    def remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target. It may be one that no topic can have. ConfigError if the expression takes too long."""
        name = self.named.remote_topic(source_alias, topic)
        return name if self.is_heartbeats(topic) else self.chain.routed(name)

    def named_topic(self, source_alias: str, topic: str) -> str:
        """The name before the routes."""
        return self.named.remote_topic(source_alias, topic)

    def source(self, topic: str) -> str | None:
        """Alias of the cluster a topic was copied from; None for a topic that is no copy."""
        return self.named.source(topic)

    def upstream(self, topic: str) -> str | None:
        """The topic's name on the cluster it was copied from; None for a topic that is no copy."""
        return self.named.upstream(topic)

    def original(self, topic: str) -> str:
        """The name on the first cluster of the chain."""
        return self.named.original(topic)

    def is_cycle(self, topic: str, target_alias: str) -> bool:
        """Whether the topic has been on the target before, so that copying it would never end."""
        return self.named.is_cycle(topic, target_alias)

    def is_mm2_internal(self, topic: str) -> bool:
        """Whether it is one of MirrorMaker's own topics, or of the brokers': a route may lead to any name."""
        return topic.startswith("__") or DefaultReplicationPolicy.is_mm2_internal(self, topic)


def routed_policy(config: Mapping[str, str]) -> DefaultReplicationPolicy:
    """The policy of a source connector's config, with the routes of its transformations. ConfigError."""
    policy, chain = replication_policy(config), chain_of(config)
    if not chain.routes:
        return policy
    return RoutedReplicationPolicy(policy.separator, policy.internal_separator, named=policy, chain=chain)
