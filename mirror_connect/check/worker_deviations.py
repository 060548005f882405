"""What this product does with each setting of a worker: the rows of docs/compatibility.md, "The worker"."""

from __future__ import annotations

from typing import Final

from mirror_connect.check.deviations import BYTES_INSTEAD, Row, accepted, as_kafka, never, not_bytes, ours, yes

# fmt: off
OF_WORKERS: Final[tuple[Row, ...]] = (
    yes(
        "bootstrap.servers", "group.id", "client.id",
        note="the name of a consumer group without members is accepted as by Connect, with a warning",
    ),
    yes(
        "config.storage.topic", "config.storage.replication.factor", "config.storage.*",
        note="created, or checked, as Connect does it",
    ),
    yes("offset.storage.topic", "offset.storage.partitions", "offset.storage.replication.factor", "offset.storage.*"),
    ours(
        "offset.storage.file.filename",
        note=
            "of [standalone mode](standalone.md): the same file, written soon after a change; one worker at a time has it",
        differs=never,
    ),
    yes("status.storage.topic", "status.storage.partitions", "status.storage.replication.factor", "status.storage.*"),
    yes(
        "session.timeout.ms", "heartbeat.interval.ms", "rebalance.timeout.ms",
        note="the session, less two seconds, is the lease of the tasks",
    ),
    ours(
        "offset.flush.interval.ms",
        note="source offsets are committed twice a second, or more often if this asks for it",
    ),
    accepted(
        "offset.flush.timeout.ms", "task.shutdown.graceful.timeout.ms",
        note="tasks have 1.8 s to commit and return, the last commit 0.4 s",
    ),
    yes(
        "exactly.once.source.support",
        note=
            "see [exactly once](exactly-once.md). With `preparing` a leader fences for workers that have `enabled`. With "
            "`disabled` it does not",
    ),
    yes(
        "connector.client.config.override.policy", "connector.client.config.override.allowlist",
        note="All, None, Principal, Allowlist or their class names; no class of one's own",
        instead="Choose one of the policies named.",
    ),
    yes("topic.tracking.enable", "topic.tracking.allow.reset"),
    accepted("topic.creation.enable", note="remote topics are made by the connector"),
    accepted(
        "key.converter", "value.converter", "header.converter", "key.converter.*", "value.converter.*",
        "header.converter.*",
        note="batches are copied as they are",
        differs=not_bytes,
        instead=BYTES_INSTEAD,
    ),
    accepted(
        "key.converter.plugin.version", "value.converter.plugin.version", "header.converter.plugin.version",
        differs=never,
    ),
    yes(
        "config.providers", "config.providers.*",
        note=
            "File-, Directory- and EnvVarConfigProvider with their parameters, and Strimzi's three: "
            "KubernetesSecretConfigProvider, KubernetesConfigMapConfigProvider and its older EnvVarConfigProvider. No "
            "other class. Without `allowed.paths` or `allowlist.pattern` they give anything, as in Connect. A warning "
            "says so if REST is reached from elsewhere without a login",
        instead=
            "Put these values where one of these providers reads them, such as a file, a directory or the environment.",
    ),
    yes("listeners", "admin.listeners", note="http and https, several of each"),
    yes("rest.advertised.host.name", "rest.advertised.port", "rest.advertised.listener"),
    ours(
        "rest.extension.classes",
        note="`BasicAuthSecurityRestExtension` with `PropertyFileLoginModule`; any other class is refused",
        differs=never,
        instead=
            "Leave it out, and put a proxy that authenticates in front of the listeners; or use "
            "BasicAuthSecurityRestExtension.",
    ),
    yes(
        "access.control.allow.origin", "access.control.allow.methods", "response.http.headers.config",
        note="see above",
    ),
    ours("log.format", note="`json`: the log has one JSON object a line ([install.md](install.md#the-log-as-json))"),
    ours("rest.docs.enabled", note="`/docs` and `/openapi.json`; Connect has nothing of the kind"),
    ours("rest.read.only", note="REST only reads and validates; Connect has nothing of the kind"),
    ours("rest.ui.enabled", note="`/ui`, a page for browsers; Connect has nothing of the kind"),
    yes(
        "ssl.client.auth", "listeners.https.*", "admin.listeners.https.*",
        note="all with the prefix or all without; without providers, engines and algorithms of a Java VM",
    ),
    yes(
        "security.protocol", "sasl.*", "ssl.*",
        note="without Kerberos, delegation tokens, callback handlers and engine factories",
        instead="Log in with TLS, SCRAM, PLAIN or OAUTHBEARER.",
    ),
    as_kafka(
        "client.dns.lookup", "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms",
        note="librdkafka (topics, administration) has no growing timeout: there the first one counts",
    ),
    ours(
        "receive.buffer.bytes", "send.buffer.bytes",
        note="where they are set; else the system's, which grow with a far line, and not Java's 64 and 128 KiB",
        differs=never,
    ),
    ours(
        "metadata.recovery.rebootstrap.trigger.ms",
        note="for librdkafka; our own connections turn to `bootstrap.servers` as soon as no known broker answers",
    ),
    yes(
        "connections.max.idle.ms", "metadata.max.age.ms", "metadata.recovery.strategy", "reconnect.backoff.ms",
        "reconnect.backoff.max.ms", "request.timeout.ms", "retry.backoff.ms", "retry.backoff.max.ms",
        "socket.connection.setup.timeout.ms",
    ),
    ours(
        "scheduled.rebalance.max.delay.ms",
        note=
            "0 by default, where Connect has 300000: other workers take over at once what a lost one ran. A worker that "
            "comes back in time gets its own again at once, where Connect lets it wait for the end",
        differs=never,
    ),
    ours(
        "worker.sync.timeout.ms", "worker.unsync.backoff.ms",
        note=
            "10000 and 60000 by default, where Connect has 3000 and 300000. A worker leaves the group if it can't read for "
            "so long what others have read of connect-configs, also where it was assigned nothing new",
        differs=never,
    ),
    accepted("connect.protocol", note="Connect's group protocol is not spoken here"),
    yes("inter.worker.key.ttl.ms", note="the leader looks at it every second, and after a takeover"),
    yes(
        "inter.worker.key.generation.algorithm", "inter.worker.key.size", "inter.worker.signature.algorithm",
        "inter.worker.verification.algorithms",
        note="HMAC with MD5, SHA-1, SHA-2 and SHA-3; a key has 40 bits at least",
    ),
    ours(
        "plugin.path",
        note=
            "directories with Python modules for [filters and policies of one's own](policies.md); jars in them are "
            "ignored",
    ),
    ours(
        "plugin.modules",
        note="installed modules that these may be of, in addition to those directories; none by default",
    ),
    ours(
        "spark.transform.python.allowed",
        note="[functions of one's own](python-transform.md) that connectors may apply to records; none by default",
    ),
    ours(
        "spark.transform.lookup.allowed.paths",
        note="directories with files that [lookups](sql.md#lookups) may read; none by default",
    ),
    accepted("plugin.discovery", note="there are no plugins in Java"),
    accepted(
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "metric.names.formats", "metrics.context.*",
        note="no JMX; [Prometheus reads the metrics](metrics.md) from `/metrics`",
    ),
    ours(
        "metrics.port", "metrics.host", "metrics.names", "metrics.detail",
        note="[metrics](metrics.md) for Prometheus; Connect has an agent in its JVM for them",
    ),
    ours(
        "producer.*", "consumer.*", "admin.*",
        note=
            "over the worker's top-level client settings; Connect uses `bootstrap.servers` alone. Checked at the "
            "start",
        differs=never,
    ),
    ours(
        "task.listener.host", "task.listener.port", "task.advertised.host.name", "task.advertised.port",
        note="where executors of a Spark cluster reach the worker; without a cluster they have no effect",
    ),
    ours(
        "spark.*", "spark.master", "spark.driver.host", "spark.driver.bindAddress",
        note="where the tasks run: on the worker's own machine, or on a [cluster](cluster.md)",
        instead="Leave it out; tasks run on the worker's own machine.",
    ),
)
# fmt: on
