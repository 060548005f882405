"""A plan as values, and as the JSON of `PUT /connector-plugins/{plugin}/config/plan`.

Numbers of partitions and offsets are the clusters' at the time of the plan. None is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from mirror_connect.connectors.acls import AclBinding
from mirror_connect.connectors.secrets import redact


class Action(StrEnum):
    """What would be done with a topic."""

    CREATE = "create"
    GROW = "grow"
    KEEP = "keep"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Side:
    """A cluster of the link. `own`: it is the worker's own cluster."""

    alias: str
    cluster_id: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """A setting of the connector that differs from the existing one's; None: it is absent. Secrets are hidden."""

    name: str
    now: str | None
    then: str | None


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic that would be copied. `running`: the existing connector copies it already.

    `partitions`: of the source topic; `remote_partitions`: of the remote topic now, 0 if there is none.
    `replication_factor` and `configs`: of a new remote topic; -1: the target brokers' default. `without`: configs that it
    does not get, because the target's brokers don't know them. `line`: why it is refused.
    """

    topic: str
    remote_topic: str
    action: Action
    running: bool
    partitions: int
    remote_partitions: int
    replication_factor: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    records: int | None = None
    bytes: int | None = None
    line: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOutTopic:
    """A topic of the source that would not be copied, although `topics` accepts it. `reason`: see filters.LeftOut."""

    topic: str
    reason: str
    line: str


@dataclass(frozen=True, slots=True)
class PlannedInternalTopic:
    """A topic that the connector itself needs. `replication_factor`: of a new one."""

    topic: str
    cluster: str
    action: Action
    replication_factor: int | None = None
    line: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedConfig:
    """A change of a config of a remote topic that exists. `then`: None if it is deleted, so that the default applies."""

    remote_topic: str
    name: str
    now: str | None
    then: str | None
    line: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedAcls:
    """ACLs to create and to delete on the target. `line`: why there are none, if that may surprise."""

    add: Sequence[AclBinding] = ()
    remove: Sequence[AclBinding] = ()
    line: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedPosition:
    """A committed offset of a group. `topic`: on the target; `source_offset`: the group's at the source.

    `target_offset`: what it stands for there; `now`: what the group has committed on the target.
    `synced`: whether it would be committed.
    """

    topic: str
    partition: int
    source_offset: int
    target_offset: int
    now: int | None
    synced: bool


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A group that would be translated. `untranslated`: its partitions whose offsets can't be translated yet.

    `line`: why it would not be synced.
    """

    group: str
    running: bool
    positions: Sequence[PlannedPosition] = ()
    untranslated: int = 0
    line: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedTasks:
    """Tasks of the existing connector, and of the planned one. `moved`: partitions or groups that change their task."""

    now: int
    then: int
    moved: int = 0
    added: int = 0
    dropped: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Amount:
    """What is to be copied, and how fast the source grows. `speed`: bytes per second, as the request said.

    `seconds`: until the copy has caught up at that speed; None if unknown, and `line` says why. `line` also says how the
    bytes are estimated.
    """

    records: int | None = None
    bytes: int | None = None
    records_per_s: float | None = None
    bytes_per_s: float | None = None
    sampled_s: float | None = None
    speed: float | None = None
    seconds: float | None = None
    line: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that would be refused, or stands in the way."""

    subject: str
    line: str


@dataclass(frozen=True, slots=True)
class Plan:
    """See the module. `exists`: a connector of this name exists. `not_selected`: topics, or groups, that no filter accepts.

    `remarks`: what else may surprise.
    """

    name: str
    connector: str
    exists: bool = False
    source: Side | None = None
    target: Side | None = None
    config: Sequence[ConfigDifference] = ()
    topics: Sequence[PlannedTopic] = ()
    excluded: Sequence[LeftOutTopic] = ()
    not_selected: int = 0
    internal_topics: Sequence[PlannedInternalTopic] = ()
    topic_configs: Sequence[PlannedConfig] = ()
    acls: PlannedAcls = PlannedAcls()
    groups: Sequence[PlannedGroup] = ()
    tasks: PlannedTasks = PlannedTasks(0, 0)
    amount: Amount | None = None
    refused: Sequence[Refusal] = ()
    remarks: Sequence[str] = ()

    def without(self, secrets: Collection[str]) -> Plan:
        """The same with secrets hidden in the texts that clusters and their clients wrote."""

        def hidden(text: str | None) -> str | None:
            return None if text is None else redact(text, secrets)

        return replace(
            self,
            topics=[replace(each, line=hidden(each.line)) for each in self.topics],
            internal_topics=[replace(each, line=hidden(each.line)) for each in self.internal_topics],
            topic_configs=[replace(each, line=hidden(each.line)) for each in self.topic_configs],
            groups=[replace(each, line=hidden(each.line)) for each in self.groups],
            amount=None if self.amount is None else replace(self.amount, line=hidden(self.amount.line)),
            refused=[replace(each, line=redact(each.line, secrets)) for each in self.refused],
            remarks=[redact(each, secrets) for each in self.remarks],
        )

    def as_json(self) -> dict[str, Any]:
        """The members as they are, in their order."""
        return asdict(self)
