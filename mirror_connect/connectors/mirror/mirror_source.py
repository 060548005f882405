"""The source connector: copies topics. Declares its settings, the rules across them, and what it warns of.

Which topics and partitions there are is app/connector_part's to find out; copying them is spark_jobs/tasks/mirror_source.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final

from mirror_connect.connectors.config.config_table import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    SHORT,
    STRING,
    ConfigTable,
    Key,
    Settings,
    ValidatedKey,
)
from mirror_connect.connectors.config.validators import between, distinct, one_of, stands_for
from mirror_connect.connectors.definition import ConnectorDefinition
from mirror_connect.connectors.mirror.filters import (
    CONFIG_PROPERTIES_EXCLUDE_DEFAULT,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    NameFilter,
    TopicSelection,
    user_names,
)
from mirror_connect.connectors.mirror.mirror_checks import check_expressions, refuse_transforms
from mirror_connect.connectors.mirror.mirror_settings import (
    METRIC_NAMES_KEY,
    MIRROR_KEYS,
    mirror_warnings,
    source_consumer,
)
from mirror_connect.connectors.mirror.offset_checks import check_offset, check_partition_number, check_text
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.user_code.known_classes import DEFAULT_CONFIG_PROPERTY_FILTER, DEFAULT_TOPIC_FILTER
from mirror_connect.connectors.user_code.user_class import name_problem

# fmt: off
KEYS: Final = MIRROR_KEYS + ConfigTable(
    Key("topics", LIST, TOPICS_DEFAULT, HIGH, "Topics to copy: names and regular expressions, whole names only.",
        validator=distinct()),
    Key("topics.exclude", LIST, TOPICS_EXCLUDE_DEFAULT, HIGH,
        "Topics not to copy; wins over topics.", validator=distinct()),
    Key("config.properties.exclude", LIST, CONFIG_PROPERTIES_EXCLUDE_DEFAULT, HIGH,
        "Topic configs never to copy: names and regular expressions, whole names only.",
        validator=distinct()),
    Key("topic.filter.class", CLASS, DEFAULT_TOPIC_FILTER, LOW,
        "What decides which topics are copied; also python:package.module:Class.",
        validator=stands_for("TopicFilter"), foreign=partial(name_problem, interface="TopicFilter")),
    Key("config.property.filter.class", CLASS, DEFAULT_CONFIG_PROPERTY_FILTER, LOW,
        "What decides which topic configs are copied; also python:package.module:Class.",
        validator=stands_for("ConfigPropertyFilter"), foreign=partial(name_problem, interface="ConfigPropertyFilter")),
    Key("consumer.poll.timeout.ms", LONG, 1000, LOW, "No effect: a fetch waits for source.consumer.fetch.max.wait.ms."),
    Key("refresh.topics.enabled", BOOLEAN, True, LOW, "Whether to look for new topics and partitions again and again."),
    Key("refresh.topics.interval.seconds", LONG, 600, LOW, "Seconds between two such looks."),
    Key("sync.topic.configs.enabled", BOOLEAN, True, LOW,
        "Whether configs of remote topics follow their sources. New topics get their sources' in any case."),
    Key("sync.topic.configs.interval.seconds", LONG, 600, LOW, "Seconds between two such rounds."),
    Key("sync.topic.acls.enabled", BOOLEAN, True, LOW, "Whether ACLs of remote topics follow their sources."),
    Key("sync.topic.acls.interval.seconds", LONG, 600, LOW, "Seconds between two such rounds."),
    Key("replication.factor", INT, 2, LOW, "Replication factor of new remote topics; -1: as the target's brokers say."),
    Key("offset-syncs.topic.replication.factor", SHORT, 3, LOW,
        "Replication factor of new topics of offset-syncs and of runs; fewer where there are fewer brokers."),
    Key("offset.lag.max", LONG, 100, LOW,
        "How far a partition's newest offset-sync may fall behind, in records."),
    Key("offset-syncs.topic.location", STRING, "source", LOW,
        "Cluster that holds the offset-syncs topic.",
        validator=one_of("source", "target")),
    Key("emit.offset-syncs.enabled", BOOLEAN, True, LOW,
        "Whether offset-syncs and runs are written; without them group positions can't be translated."),
    Key("heartbeats.replication.enabled", BOOLEAN, True, LOW,
        "Whether heartbeats topics are copied whatever topics and topics.exclude say."),
    METRIC_NAMES_KEY,
)

PREFIXED_ACLS: Final = "sync.topic.acls.prefixed.enabled"
REMOVE_ACLS: Final = "sync.topic.acls.remove.enabled"
CORRUPT_BATCHES: Final = "on.corrupt.batch"
OVERSIZE_RECORDS: Final = "on.oversize.record"
NEW_TOPICS: Final = "on.topic.recreated"
FOLLOWED: Final = "verify.follow.enabled"
FOLLOW_SHARE: Final = "verify.follow.cpu.share"
COPY: Final = "copy"
STOP: Final = "stop"
WAIT: Final = "wait"
SKIP: Final = "skip"
OWN_KEYS: Final = ConfigTable(
    Key(PREFIXED_ACLS, BOOLEAN, False, LOW,
        "Whether PREFIXED ACLs are copied too, where they cover a topic that is copied."),
    Key(REMOVE_ACLS, BOOLEAN, False, LOW,
        "Whether an ACL that this connector has copied is deleted on the target once the source has revoked it, also if "
        "that was while the connector was away."),
    Key(CORRUPT_BATCHES, STRING, WAIT, LOW,
        "A record batch whose CRC or header is wrong. wait: its partition stands still, and it is read again and again. "
        "skip: after a second look its records are given up, their offsets are logged.",
        validator=one_of(WAIT, SKIP)),
    Key(OVERSIZE_RECORDS, STRING, WAIT, LOW,
        "A record that is larger, alone in its batch, than max.message.bytes of its remote topic. wait: its partition "
        "stands still until that is raised. skip: the record is given up, and the log names it.",
        validator=one_of(WAIT, SKIP)),
    Key(NEW_TOPICS, STRING, COPY, LOW,
        "A source topic that was deleted and created again. copy: the new one is copied from its beginning, into the same "
        "remote topic. stop: its partitions stand still until a user has decided.",
        validator=one_of(COPY, STOP)),
    Key(FOLLOWED, BOOLEAN, False, LOW,
        "Whether what this connector copies is verified behind it, as by mirror-connect verify --follow, in a process "
        "beside the worker. What differs is a line of the connector's status and of the log."),
    Key(FOLLOW_SHARE, DOUBLE, 0.05, LOW,
        "CPU seconds that verifying takes at most for each one of copying. At 1 everything is compared, whatever it takes.",
        validator=between(0.001, 1)),
)
# fmt: on

# What MirrorMaker 2 does and this connector doesn't yet: named in the log when a config asks for it. A line here goes away
# with what it is about. The values are those with which nothing is missed; a name that ends in a dot is a prefix.
NOT_YET: Final[Mapping[str, frozenset[str]]] = {
    "transaction.boundary": frozenset({"poll"}),
    "transaction.boundary.interval.ms": frozenset(),
}


class MirrorSource(ConnectorDefinition):
    """MirrorSourceConnector."""

    class_name = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    task_class = "org.apache.kafka.connect.mirror.MirrorSourceTask"
    keys: ClassVar[ConfigTable] = KEYS
    own_keys: ClassVar[ConfigTable] = OWN_KEYS

    def check(
        self,
        results: dict[str, ValidatedKey],
        config: Mapping[str, str | None],
        as_written: Mapping[str, str | None],
    ) -> None:
        """MirrorSourceConnector.validate, and refusals of what would fail or be ignored silently later."""
        _check_offset_syncs(results, config)
        _check_exactly_once(results, config)
        check_expressions(results, config, as_written, ("topics", "topics.exclude", "config.properties.exclude"))
        refuse_transforms(results)

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """See ConnectorDefinition: as MirrorSourceConnector.alterOffsets."""
        check_text(partition, "cluster")
        check_text(partition, "topic")
        check_partition_number(partition)
        check_offset(partition, offset)

    def warnings(self, config: Mapping[str, str]) -> list[str]:
        """What has no effect on a copier of batches, and what it doesn't do yet."""
        return mirror_warnings(config) + _not_yet(config)


def topic_selection(settings: Settings) -> TopicSelection:
    """Which source topics a connector copies, and what they are called on the target."""
    own = user_names("topic.filter.class", settings.originals)
    return TopicSelection(
        policy=replication_policy(settings.originals),
        topics=own or NameFilter.compile("topics", settings.texts("topics")),
        excluded=NameFilter(None) if own else NameFilter.compile("topics.exclude", settings.texts("topics.exclude")),
        target_alias=settings.text("target.cluster.alias"),
        heartbeats=settings.boolean("heartbeats.replication.enabled"),
        source_alias=settings.text("source.cluster.alias"),
    )


def own_boolean(settings: Settings, name: str) -> bool:
    """A BOOLEAN of OWN_KEYS, which have a value only where one is given."""
    return settings.boolean(name) if name in settings else bool(OWN_KEYS.keys[name].default)


def own_number(settings: Settings, name: str) -> float:
    """A DOUBLE of OWN_KEYS, likewise."""
    return settings.number(name) if name in settings else float(OWN_KEYS.keys[name].default)


def own_text(settings: Settings, name: str) -> str:
    """A STRING of OWN_KEYS, likewise."""
    return settings.text(name) if name in settings else str(OWN_KEYS.keys[name].default)


def _not_yet(config: Mapping[str, str]) -> list[str]:
    names = [
        name
        for name, value in config.items()
        if any(
            (name.startswith(wanted) if wanted.endswith(".") else name == wanted)
            and value.strip().lower() not in harmless
            for wanted, harmless in NOT_YET.items()
        )
    ]
    return [f"Not supported yet, and without effect: {', '.join(sorted(names))}"] if names else []


def _check_offset_syncs(results: dict[str, ValidatedKey], config: Mapping[str, str | None]) -> None:
    # As Connect compares it: `False` turns them off as well, and passes.
    if config.get("emit.offset-syncs.enabled") != "false":
        return
    if any(name.startswith(("offset-syncs.topic.", "offset-syncs-")) for name in config):
        results["emit.offset-syncs.enabled"].errors.append(
            "MirrorSourceConnector can't setup offset-syncs feature while emit.offset-syncs.enabled set to false"
        )


def _check_exactly_once(results: dict[str, ValidatedKey], config: Mapping[str, str | None]) -> None:
    # Only the lower-case word counts for this rule in Java, though any case passes the setting's own check.
    if config.get("exactly.once.support") != "required":
        return
    given = {name: value for name, value in config.items() if value is not None}
    if source_consumer(given).get("isolation.level") != "read_committed":
        result = results["exactly.once.support"]
        result.value = None
        result.errors.append(
            "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured with "
            "isolation.level set to 'read_committed'; otherwise, records from aborted and uncommitted transactions "
            "will be replicated from the source cluster to the target cluster."
        )
