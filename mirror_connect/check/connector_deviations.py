"""What this product does with each setting of the mirror connectors: the rows of docs/compatibility.md, one table for each.

What the checkpoint and the heartbeat connector share with the source connector stands in the latter's table only.
"""

from __future__ import annotations

from typing import Final

from mirror_connect.check.deviations import (
    BYTES_INSTEAD,
    Row,
    accepted,
    below_a_second,
    never,
    not_bytes,
    ours,
    yes,
)

# fmt: off
OF_SOURCE: Final[tuple[Row, ...]] = (
    yes("name", "connector.class", "tasks.max"),
    yes("enabled"),
    yes(
        "source.cluster.alias", "target.cluster.alias",
        note="equal ones are accepted, as by MirrorMaker 2, with a warning that names what is not copied then",
    ),
    ours(
        "source.cluster.*", "target.cluster.*", "source.consumer.*", "source.admin.*", "target.admin.*",
        "consumer.*", "admin.*",
        note=
            "precedence as in MirrorMaker 2; types, ranges and logins are checked when the config comes, and not when "
            "a client is made",
        differs=never,
    ),
    ours("target.producer.*", "producer.*", note="of a target that is another cluster than the worker's"),
    yes(
        "source.producer.*", "target.consumer.*",
        note="write offset syncs at the source; read offset ranges on the target",
    ),
    yes("producer.override.*", note="what a copier of batches has no use for is named once in the log"),
    ours(
        "topics", "topics.exclude",
        note=
            "Java's regular expressions, translated. A broken one is refused here and fails at start there. One that "
            "takes more than 1 s for a name, or 20 s for all, fails the connector",
        differs=never,
        instead="Correct the regular expression.",
    ),
    ours(
        "topic.filter.class",
        note="a filter of one's own: [in Python](policies.md); a Java class is refused",
        differs=never,
        instead="Write the filter in Python (docs/policies.md), or choose topics with topics and topics.exclude.",
    ),
    yes(
        "replication.policy.class", "replication.policy.separator",
        "replication.policy.internal.topic.separator.enabled",
        note=
            "DefaultReplicationPolicy and IdentityReplicationPolicy, or [one's own](policies.md) in Python; a Java "
            "class is refused",
        instead="Write the policy in Python (docs/policies.md), or use one of Kafka's two.",
    ),
    ours(
        "refresh.topics.enabled", "refresh.topics.interval.seconds",
        note="a round that failed is tried again after 1 to 30 s, not at the next interval",
        differs=never,
    ),
    yes("replication.factor", "admin.timeout.ms"),
    yes("heartbeats.replication.enabled"),
    ours(
        "sync.topic.configs.enabled", "sync.topic.configs.interval.seconds", "config.properties.exclude",
        "config.property.filter.class", "use.defaults.from",
        note="see [Topic configs](#topic-configs); a filter of one's own [in Python](policies.md)",
        differs=never,
        instead="Write the filter in Python (docs/policies.md), or use config.properties.exclude.",
    ),
    ours("sync.topic.acls.enabled", "sync.topic.acls.interval.seconds", note="see [ACLs](#acls)", differs=never),
    ours("on.corrupt.batch", note="`skip` gives a corrupt batch up, with a line in the log; MirrorMaker can't"),
    ours(
        "on.oversize.record",
        note=
            "`skip` gives up a record that its remote topic doesn't take, with a line in the log; MirrorMaker's task "
            "fails",
    ),
    ours(
        "on.topic.recreated",
        note=
            "`stop` stalls the partitions of a source topic that was deleted and created again; MirrorMaker notices "
            "nothing",
    ),
    ours(
        "verify.follow.enabled", "verify.follow.cpu.share",
        note=
            "a process that [verifies behind the connector](verify.md#by-the-worker-verifyfollowenabled); MirrorMaker "
            "has none of the kind",
    ),
    ours(
        "spark.transform.sql", "spark.transform.value.schema", "spark.transform.key.schema",
        note="filters and changes records by [SQL](sql.md); MirrorMaker has none of the kind",
    ),
    ours(
        "spark.transform.python",
        note=
            "filters and changes records by [a function of your own](python-transform.md); MirrorMaker has none of the kind",
    ),
    ours(
        "errors.deadletterqueue.topic.name", "errors.deadletterqueue.topic.replication.factor",
        "errors.deadletterqueue.context.headers.enable",
        note=
            "a [dead letter topic](transforms.md#the-dead-letter-topic) on the target; in Kafka only sink connectors have "
            "one. Off unless set",
    ),
    ours(
        "spark.transform.lookup.*", "spark.transform.secret.*",
        note="[lookups](sql.md#lookups) and secrets of a statement or function",
    ),
    ours(
        "spark.transform.lookup.refresh.interval.seconds",
        note="how soon a changed [lookup](sql.md#lookups) is used",
    ),
    ours(
        "spark.transform.timeout.ms",
        note="a statement or function that gives back nothing for so long is [an error of its task](sql.md#errors)",
    ),
    ours(
        "sync.topic.acls.prefixed.enabled", "sync.topic.acls.remove.enabled",
        note="MirrorMaker has none of the kind; off unless set",
    ),
    ours(
        "emit.offset-syncs.enabled", "offset-syncs.topic.location", "offset-syncs.topic.replication.factor",
        "offset.lag.max",
        note="see [Offset syncs](#offset-syncs)",
        differs=never,
    ),
    accepted("consumer.poll.timeout.ms", note="a fetch waits for `source.consumer.fetch.max.wait.ms`"),
    accepted(
        "forwarding.admin.class",
        note=
            "`ForwardingAdmin` itself; another class is refused: clusters are administered without Java, and it would "
            "hear of nothing",
        differs=never,
        instead="Leave it out; give the admin clients their rights by ACLs, or create topics by hand.",
    ),
    yes("metric.names.formats", note="for [Prometheus](metrics.md), without JMX"),
    accepted(
        "metric.reporters", "config.providers", "security.protocol", "sasl.*", "ssl.*",
        note="no effect without a prefix, as in MirrorMaker 2; the log says so of a login",
        differs=never,
    ),
    accepted(
        "key.converter", "value.converter", "header.converter",
        note=
            "bytes stay bytes; another class than ByteArrayConverter, also if it is the worker's, draws a line in the "
            "log: what Connect would write. A JsonConverter lets [transformations](transforms.md) read JSON",
        differs=not_bytes,
        instead=BYTES_INSTEAD,
    ),
    accepted(
        "key.converter.*", "value.converter.*", "header.converter.*",
        note="of converters that are not applied. Those of JSON that is transformed count; schema.content is refused there",
    ),
    yes(
        "transforms", "transforms.*", "predicates", "predicates.*",
        note=
            "of a MirrorSourceConnector: [most of Kafka's](transforms.md). Those that look into keys or values read them as "
            "JSON, if a JsonConverter of the connector says so. Others are refused by name: to copy records without them "
            "would be wrong data",
        instead=
            "Keep a connector with other transformations, or with other formats than JSON, on Kafka Connect.",
    ),
    yes(
        "errors.tolerance", "errors.log.enable", "errors.log.include.messages",
        note="[of records that can't be transformed](transforms.md#records-that-cant-be-transformed)",
    ),
    accepted(
        "errors.retry.timeout", "errors.retry.delay.max.ms",
        note="no operation on a record is worth a second try; a line in the log",
    ),
    accepted(
        "topic.creation.groups", "topic.creation.*",
        note="remote topics are made like their sources; a line in the log",
    ),
    yes(
        "exactly.once.support",
        note="of source connectors; the other two do not say that they can, and are refused with `required` as in Connect",
        instead="Set exactly.once.source.support=enabled on the workers, or leave it out or set it to requested here.",
    ),
    ours(
        "transaction.boundary", "transaction.boundary.interval.ms",
        note=
            "with `poll` a transaction has what had been fetched at its beginning. `connector` is refused as in Connect",
        differs=never,
    ),
    ours(
        "offsets.storage.topic",
        note=
            "made, read and preferred as by Connect. Tasks write to it alone; Connect's write to the worker's topic "
            "as well. What REST changes is in both",
        differs=never,
    ),
    accepted("config.action.reload", note="no provider here says that a value has changed", differs=never),
    yes("connector.plugin.version", note="4.3.1, or a range that holds it"),
    accepted("tasks.max.enforce", note="never more tasks than `tasks.max`", differs=never),
)

OF_CHECKPOINT: Final[tuple[Row, ...]] = (
    yes("enabled", "emit.checkpoints.enabled"),
    ours(
        "groups", "groups.exclude", "group.filter.class", "topics", "topics.exclude", "topic.filter.class",
        note="Java's regular expressions, translated, or classes of one's own [in Python](policies.md)",
        differs=never,
        instead="Correct the regular expression; write a filter of your own in Python (docs/policies.md).",
    ),
    ours(
        "refresh.groups.enabled", "refresh.groups.interval.seconds",
        note="a round that failed is tried again after 1 to 30 s, not at the next interval",
        differs=never,
    ),
    ours(
        "emit.checkpoints.interval.seconds",
        note="the first round comes at once, not after an interval; 1 s at least",
        differs=below_a_second,
    ),
    ours("sync.group.offsets.enabled", "sync.group.offsets.interval.seconds", note="see below", differs=never),
    ours(
        "checkpoints.topic.replication.factor",
        note="as many replicas as there are brokers where it is more, and a line in the log",
        differs=never,
    ),
    yes("offset-syncs.topic.location"),
    yes(
        "source.consumer.*", "target.consumer.*", "source.admin.*", "target.admin.*",
        note=
            "offset syncs, checkpoints and offset ranges; groups on both sides. Without "
            "`target.cluster.bootstrap.servers` the worker's own",
    ),
)

OF_HEARTBEAT: Final[tuple[Row, ...]] = (
    yes("emit.heartbeats.enabled", note="`enabled` means nothing here, as in MirrorMaker"),
    ours("emit.heartbeats.interval.seconds", note="1 s at least", differs=below_a_second),
    ours(
        "heartbeats.topic.replication.factor",
        note="as many replicas as there are brokers where it is more, and a line in the log",
        differs=never,
    ),
)
# fmt: on
