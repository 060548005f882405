"""The source connector, which copies topics: its settings, the rules across them, and warnings.

app/worker_connectors finds topics and partitions; spark_jobs/tasks/mirror_source.py copies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final

from mirror_connect.connectors.config.table import (
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
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.checks import (
    check_expressions,
    check_offset,
    check_partition_number,
    check_text,
)
from mirror_connect.connectors.mirror.dead_letters import (
    DEAD_LETTER_KEYS,
    check_dead_letters,
    dead_letter_notices,
    dead_letter_topic,
)
from mirror_connect.connectors.mirror.filters import (
    CONFIG_PROPERTIES_EXCLUDE_DEFAULT,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    NameFilter,
    TopicSelection,
    user_names,
)
from mirror_connect.connectors.mirror.lookups import REFRESH as REFRESH_LOOKUPS
from mirror_connect.connectors.mirror.record_transform import check_transform
from mirror_connect.connectors.mirror.routed_policy import routed_policy
from mirror_connect.connectors.mirror.settings import (
    METRIC_NAMES_KEY,
    MIRROR_KEYS,
    mirror_warnings,
    source_consumer,
)
from mirror_connect.connectors.mirror.transform_sql import KEY_SCHEMA, PYTHON, SQL, VALUE_SCHEMA
from mirror_connect.connectors.mirror.transform_sql import TIMEOUT as TRANSFORM_TIMEOUT
from mirror_connect.connectors.mirror.transforms import chain_of, check_transforms, has_route, json_parts
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
        "The class that decides which topics are copied; also python:package.module:Class.",
        validator=stands_for("TopicFilter"), foreign=partial(name_problem, interface="TopicFilter")),
    Key("config.property.filter.class", CLASS, DEFAULT_CONFIG_PROPERTY_FILTER, LOW,
        "The class that decides which topic configs are copied; also python:package.module:Class.",
        validator=stands_for("ConfigPropertyFilter"), foreign=partial(name_problem, interface="ConfigPropertyFilter")),
    Key("consumer.poll.timeout.ms", LONG, 1000, LOW, "No effect: a fetch waits for source.consumer.fetch.max.wait.ms."),
    Key("refresh.topics.enabled", BOOLEAN, True, LOW, "Whether to look for new topics and partitions regularly."),
    Key("refresh.topics.interval.seconds", LONG, 600, LOW, "Seconds between two searches for new topics."),
    Key("sync.topic.configs.enabled", BOOLEAN, True, LOW,
        "Whether changed topic configs are copied to remote topics. New remote topics get the configs in any case."),
    Key("sync.topic.configs.interval.seconds", LONG, 600, LOW, "Seconds between two copies of topic configs."),
    Key("sync.topic.acls.enabled", BOOLEAN, True, LOW, "Whether ACLs of topics are copied to remote topics."),
    Key("sync.topic.acls.interval.seconds", LONG, 600, LOW, "Seconds between two copies of ACLs."),
    Key("replication.factor", INT, 2, LOW, "Replication factor of new remote topics; -1: the target brokers' default."),
    Key("offset-syncs.topic.replication.factor", SHORT, 3, LOW,
        "Replication factor of new topics of offset-syncs and of offset ranges; lower if there are fewer brokers."),
    Key("offset.lag.max", LONG, 100, LOW,
        "How far a partition's newest offset-sync may fall behind, in records."),
    Key("offset-syncs.topic.location", STRING, "source", LOW,
        "Cluster that holds the offset-syncs topic.",
        validator=one_of("source", "target")),
    Key("emit.offset-syncs.enabled", BOOLEAN, True, LOW,
        "Whether offset-syncs and offset ranges are written. Without them, groups' offsets cannot be translated."),
    Key("heartbeats.replication.enabled", BOOLEAN, True, LOW,
        "Whether heartbeats topics are copied even if topics or topics.exclude leave them out."),
    METRIC_NAMES_KEY,
)

PREFIXED_ACLS: Final = "sync.topic.acls.prefixed.enabled"
REMOVE_ACLS: Final = "sync.topic.acls.remove.enabled"
CORRUPT_BATCHES: Final = "on.corrupt.batch"
OVERSIZE_RECORDS: Final = "on.oversize.record"
NEW_TOPICS: Final = "on.topic.recreated"
SAMPLING_ENABLED: Final = "verify.follow.enabled"
SAMPLING_CPU_SHARE: Final = "verify.follow.cpu.share"
COPY: Final = "copy"
STOP: Final = "stop"
WAIT: Final = "wait"
SKIP: Final = "skip"
OWN_KEYS: Final = ConfigTable(
    Key(PREFIXED_ACLS, BOOLEAN, False, LOW,
        "Whether PREFIXED ACLs are copied too if they cover a copied topic."),
    Key(REMOVE_ACLS, BOOLEAN, False, LOW,
        "Whether an ACL that this connector has copied is deleted on the target after the source has revoked it. This "
        "includes ACLs that were revoked while the connector was not running."),
    Key(CORRUPT_BATCHES, STRING, WAIT, LOW,
        "What to do with a record batch whose CRC or header is wrong. wait: the partition is stalled, and the batch is read "
        "again regularly. skip: after a second read its records are skipped, and their offsets are logged.",
        validator=one_of(WAIT, SKIP)),
    Key(OVERSIZE_RECORDS, STRING, WAIT, LOW,
        "What to do with a record that, alone in its batch, is larger than max.message.bytes of its remote topic. wait: the "
        "partition is stalled until the limit is raised. skip: the record is skipped and logged.",
        validator=one_of(WAIT, SKIP)),
    Key(NEW_TOPICS, STRING, COPY, LOW,
        "What to do with a source topic that was deleted and created again. copy: the new topic is copied from its "
        "beginning into the same remote topic. stop: its partitions are stalled until a user decides.",
        validator=one_of(COPY, STOP)),
    Key(SAMPLING_ENABLED, BOOLEAN, False, LOW,
        "Whether a separate process verifies what this connector copies, like mirror-connect verify --follow. The "
        "connector's status and the log report differences."),
    Key(SAMPLING_CPU_SHARE, DOUBLE, 0.05, LOW,
        "The most CPU seconds that verifying may use for each CPU second of copying. 1: every record, at any CPU cost.",
        validator=between(0.001, 1)),
    Key(SQL, STRING, None, LOW,
        "One SELECT over the table records, which Spark applies to each record. WHERE says which records are copied. A "
        "column that is not selected stays as it is."),
    Key(VALUE_SCHEMA, STRING, None, LOW,
        "The fields of the JSON objects in values, as id BIGINT, name STRING. Then value.name is a field in the statement. "
        "An object with the changed fields is written as JSON."),
    Key(KEY_SCHEMA, STRING, None, LOW, "As spark.transform.value.schema, for keys."),
    Key(PYTHON, STRING, None, LOW,
        "A function of your own, package.module:function. It gets the records of a batch as columns of pyarrow, and returns "
        "those that it changes, and which records are copied. The worker's spark.transform.python.allowed must name it."),
    Key(REFRESH_LOOKUPS, INT, 300, LOW,
        "Seconds between two looks at the lookups that the statement joins (spark.transform.lookup.NAME). If one has "
        "changed, the next records get the new one.",
        validator=between(1, 86_400)),
    Key(TRANSFORM_TIMEOUT, INT, 300_000, LOW,
        "Milliseconds in which the statement or function must give back some of the records that it has. If none comes back "
        "for so long, the task is FAILED. Its line names the topic, the partition and the offsets.",
        validator=between(1_000, 600_000)),
) + DEAD_LETTER_KEYS
# fmt: on


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
        unresolved: Mapping[str, str],
    ) -> None:
        """MirrorSourceConnector.validate. Also refuses settings that would fail or be ignored silently later."""
        _check_offset_syncs(results, config)
        _check_exactly_once(results, config)
        check_expressions(results, config, as_written, ("topics", "topics.exclude", "config.properties.exclude"))
        check_transforms(results, config, as_written)
        check_transform(results, config, as_written, unresolved)
        check_dead_letters(results, config, as_written)
        _check_sampling(results, config)
        _check_prefixed_acls(results, config)

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        """See ConnectorDefinition: as MirrorSourceConnector.alterOffsets."""
        check_text(partition, "cluster")
        check_text(partition, "topic")
        check_partition_number(partition)
        check_offset(partition, offset)

    def idle_offset(self, config: Mapping[str, str], partition: Mapping[str, Any]) -> str | None:
        """See ConnectorDefinition. Which topics there are, only the source cluster knows."""
        cluster = partition.get("cluster")
        same = cluster == config.get("source.cluster.alias", "source")
        return None if same else f"cluster {cluster} is not its source.cluster.alias"

    def exactly_once(self, config: Mapping[str, str]) -> bool | None:
        """See ConnectorDefinition. Records of transactions that were aborted at the source must not be copied."""
        return source_consumer(config).get("isolation.level") == "read_committed"

    def warnings(self, config: Mapping[str, str]) -> list[str]:
        """Lines about settings without effect."""
        converts = SQL in config or PYTHON in config or bool(json_parts(config))
        return [*mirror_warnings(config, converts=converts), *dead_letter_notices(config)]


def topic_selection(settings: Settings) -> TopicSelection:
    """Selects the source topics that a connector copies, and names them on the target."""
    own = user_names("topic.filter.class", settings.originals)
    letters = dead_letter_topic(settings)
    return TopicSelection(
        policy=routed_policy(settings.originals),
        topics=own or NameFilter.compile("topics", settings.texts("topics")),
        excluded=NameFilter(None) if own else NameFilter.compile("topics.exclude", settings.texts("topics.exclude")),
        target_alias=settings.text("target.cluster.alias"),
        heartbeats=settings.boolean("heartbeats.replication.enabled"),
        source_alias=settings.text("source.cluster.alias"),
        reserved=frozenset() if letters is None else frozenset({letters.name}),
    )


def _check_offset_syncs(results: dict[str, ValidatedKey], config: Mapping[str, str | None]) -> None:
    # Connect's comparison: `False` turns them off, too, but passes.
    if config.get("emit.offset-syncs.enabled") != "false":
        return
    if any(name.startswith(("offset-syncs.topic.", "offset-syncs-")) for name in config):
        results["emit.offset-syncs.enabled"].errors.append(
            "MirrorSourceConnector can't setup offset-syncs feature while emit.offset-syncs.enabled set to false"
        )


def _check_sampling(results: dict[str, ValidatedKey], config: Mapping[str, str | None]) -> None:
    sampling = results.get(SAMPLING_ENABLED)
    if sampling is None or not sampling.parsed:
        return
    by_steps = results["transforms"].parsed and not _only_routes(config)
    by_spark = next((name for name in (SQL, PYTHON) if name in results), None)
    if by_steps or by_spark is not None:
        sampling.errors.append(
            f"Invalid value {sampling.value} for configuration {SAMPLING_ENABLED}: copies of transformed records differ "
            f"from their originals, so they can't be verified: leave out this setting, or "
            f"{'transforms' if by_steps else by_spark}"
        )


def _only_routes(config: Mapping[str, str | None]) -> bool:
    try:
        return chain_of(config).keeps_records
    except ConfigError:
        return False


def _check_prefixed_acls(results: dict[str, ValidatedKey], config: Mapping[str, str | None]) -> None:
    prefixed = results.get(PREFIXED_ACLS)
    if prefixed is not None and prefixed.parsed and has_route(config):
        prefixed.errors.append(
            f"Invalid value {prefixed.value} for configuration {PREFIXED_ACLS}: a RegexRouter names whole topics, and no "
            "prefix: leave out this setting, or the RegexRouter"
        )


def _check_exactly_once(results: dict[str, ValidatedKey], config: Mapping[str, str | None]) -> None:
    # In Java only the lower-case word counts for this rule, although the setting accepts any case.
    if config.get("exactly.once.support") != "required":
        return
    given = {name: value for name, value in config.items() if value is not None}
    if not MirrorSource().exactly_once(given):
        result = results["exactly.once.support"]
        result.value = None
        result.errors.append(
            "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured with "
            "isolation.level set to 'read_committed'; otherwise, records from aborted and uncommitted transactions "
            "will be replicated from the source cluster to the target cluster."
        )
