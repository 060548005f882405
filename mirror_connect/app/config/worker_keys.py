"""The table of worker settings: names and defaults of Connect's DistributedConfig (4.3.1), and a few of our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mirror_connect.app.config.cross_origins import valid_origins
from mirror_connect.app.config.inter_worker import INTER_WORKER_KEYS
from mirror_connect.app.config.listener_tls import ADMIN_PREFIX, CLIENT_AUTH_KEY, MAIN_PREFIX
from mirror_connect.app.config.response_headers import valid_header_rules
from mirror_connect.app.config.rest_extension import known_extensions
from mirror_connect.connectors.config.security_settings import SASL_KEYS, SECURITY_PROTOCOL_KEY, TLS_KEYS
from mirror_connect.connectors.config.table import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    REQUIRED,
    SHORT,
    STRING,
    ConfigTable,
    Key,
    Quote,
    Validator,
)
from mirror_connect.connectors.config.validators import between, distinct, one_of, one_of_in_any_case, stands_for
from mirror_connect.connectors.log_format import FORMATS, TEXT
from mirror_connect.connectors.mirror.lookups import ALLOWED_PATHS
from mirror_connect.connectors.user_code.known_classes import CONVERTER, HEADER_CONVERTER
from mirror_connect.connectors.user_code.user_function import ALLOWED_SETTING, entry_problem
from mirror_connect.connectors.wording import likely_name

_JAVA: Final = "Of a Java worker; has no effect here."
_INT_MAX: Final = 2**31 - 1
_MOST_PORT: Final = 65_535


def _positive_or_default(what: str) -> Validator:
    def check(name: str, value: Any, quote: Quote) -> str | None:
        if isinstance(value, int) and (value == -1 or value > 0):
            return None
        return f"Invalid value {quote(value)} for configuration {name}: {what}"

    return check


_PARTITIONS: Final = _positive_or_default("Number of partitions must be positive, or -1 to use the broker's default")
_REPLICATION: Final = _positive_or_default(
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, "
    "or -1 to use the broker's default"
)


def _some_listener(name: str, value: Any, quote: Quote) -> str | None:
    if value:
        return None
    return (
        f"Invalid value {quote(value)} for configuration {name}: "
        "at least one URL is expected, ex: http://localhost:8080,https://localhost:8443."
    )


def _some_port(name: str, value: Any, quote: Quote) -> str | None:
    if value is None or 0 <= value <= _MOST_PORT:
        return None
    return f"Invalid value {quote(value)} for configuration {name}: it has to be a port, 1 to {_MOST_PORT}"


# fmt: off
_OWN_KEYS: Final = ConfigTable(
    Key("bootstrap.servers", LIST, REQUIRED, HIGH, "Brokers host:port of the cluster that holds the worker's topics."),
    Key("group.id", STRING, REQUIRED, HIGH, "Name of the group of workers that share connectors."),
    Key("client.id", STRING, "", LOW, "Beginning of the names of the worker's Kafka clients."),
    Key("config.storage.topic", STRING, REQUIRED, HIGH, "Topic of connector configs."),
    Key("config.storage.replication.factor", SHORT, 3, LOW, "Its replication factor, if it is created.",
        validator=_REPLICATION),
    Key("offset.storage.topic", STRING, REQUIRED, HIGH, "Topic of source offsets."),
    Key("offset.storage.partitions", INT, 25, LOW, "Its partitions, if it is created.", validator=_PARTITIONS),
    Key("offset.storage.replication.factor", SHORT, 3, LOW, "Its replication factor, if it is created.",
        validator=_REPLICATION),
    Key("status.storage.topic", STRING, REQUIRED, HIGH, "Topic of states."),
    Key("status.storage.partitions", INT, 5, LOW, "Its partitions, if it is created.", validator=_PARTITIONS),
    Key("status.storage.replication.factor", SHORT, 3, LOW, "Its replication factor, if it is created.",
        validator=_REPLICATION),
    Key("session.timeout.ms", INT, 10000, HIGH,
        "A worker silent for so long is out of the group; also its tasks' lease."),
    Key("heartbeat.interval.ms", INT, 3000, HIGH, "How often a worker says that it is alive."),
    Key("rebalance.timeout.ms", INT, 60000, HIGH, "Longest time for the workers to join after a change."),
    Key("scheduled.rebalance.max.delay.ms", INT, 0, LOW,
        "How long what a lost worker ran waits for it, before other workers take it over.",
        validator=between(0, _INT_MAX)),
    Key("connect.protocol", STRING, "sessioned", LOW, _JAVA, validator=one_of("eager", "compatible", "sessioned")),
    Key("worker.sync.timeout.ms", INT, 10000, MEDIUM,
        "A worker that can't read for so long what others have read of connect-configs leaves the group for a while.",
        validator=between(1, _INT_MAX)),
    Key("worker.unsync.backoff.ms", INT, 60000, MEDIUM, "For how long it stays out of the group at the least.",
        validator=between(0, _INT_MAX)),
    Key("exactly.once.source.support", STRING, "disabled", HIGH,
        "Whether connectors copy exactly once: enabled, or disabled. preparing: not yet, but other workers may.",
        validator=one_of_in_any_case("DISABLED", "ENABLED", "PREPARING")),
    Key("offset.flush.interval.ms", LONG, 60000, LOW, "How often, at least, source offsets are committed.",
        validator=between(1)),
    Key("offset.flush.timeout.ms", LONG, 5000, LOW,
        "No effect: a commit holds nothing up here, and a task's last one has 0.4 s."),
    Key("task.shutdown.graceful.timeout.ms", LONG, 5000, LOW,
        "No effect: tasks have 1.8 s to commit and return, whatever it says."),
    Key("topic.creation.enable", BOOLEAN, True, LOW, _JAVA),
    Key("topic.tracking.enable", BOOLEAN, True, LOW, "Whether the topics that connectors write to are recorded."),
    Key("topic.tracking.allow.reset", BOOLEAN, True, LOW, "Whether REST may forget them."),
    Key("connector.client.config.override.policy", STRING, "All", MEDIUM,
        "Which producer.override.* a connector may give: All, None, Principal (login only) or Allowlist."),
    Key("connector.client.config.override.allowlist", LIST, [], MEDIUM,
        "With the policy Allowlist: the client properties that connectors may override.", validator=distinct()),
    Key("key.converter", CLASS, REQUIRED, HIGH, "Accepted; batches are copied as they are.",
        validator=stands_for(CONVERTER)),
    Key("value.converter", CLASS, REQUIRED, HIGH, "Accepted; batches are copied as they are.",
        validator=stands_for(CONVERTER)),
    Key("header.converter", CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter", LOW,
        "Accepted; batches are copied as they are.", validator=stands_for(HEADER_CONVERTER)),
    Key("config.providers", LIST, [], LOW, "Aliases of config providers.", validator=distinct()),
    Key("plugin.path", LIST, None, LOW,
        "Directories with Python modules of one's own, for filters and policies (python:package.module:Class)."),
    Key("plugin.modules", LIST, [], LOW,
        "Names of other packages and modules of this Python that filters and policies may be of; * for any.",
        validator=distinct()),
    Key("plugin.discovery", STRING, "hybrid_warn", LOW, _JAVA),
    Key("log.format", STRING, TEXT, LOW,
        "The log on standard error: text, or json with one object a line. MIRROR_CONNECT_LOG_FORMAT wins. Of our own.",
        validator=one_of(*FORMATS)),
)

_REST_KEYS: Final = ConfigTable(
    Key("listeners", LIST, ["http://:8083"], LOW,
        "URLs on which REST is served: http://HOST:PORT, https://HOST:PORT; no HOST: every address.",
        validator=_some_listener),
    Key("admin.listeners", LIST, None, LOW,
        "URLs on which /admin is served; not given: those of listeners; empty: there is no /admin."),
    Key("rest.advertised.host.name", STRING, None, LOW, "Host under which other workers reach this one."),
    Key("rest.advertised.port", INT, None, LOW, "Port under which other workers reach this one."),
    Key("rest.advertised.listener", STRING, None, LOW, "Which protocol other workers use: http or https."),
    Key("rest.extension.classes", LIST, [], LOW, "REST extensions, as BasicAuthSecurityRestExtension.",
        validator=known_extensions),
    Key("access.control.allow.origin", STRING, "", LOW,
        "Origins, comma separated, whose pages may read answers: as they are, regular expressions, or *.",
        validator=valid_origins),
    Key("access.control.allow.methods", STRING, "", LOW,
        "Methods, comma separated, that they may use; empty: GET, POST and HEAD."),
    Key("response.http.headers.config", STRING, "", LOW,
        "Headers of every answer: set, add, setDate or addDate, then NAME:VALUE; comma separated, "
        "quoted where a comma is part of it. Dates in milliseconds from now.",
        validator=valid_header_rules),
    Key("rest.docs.enabled", BOOLEAN, True, LOW,
        "Whether /docs shows the REST contract to try out, and /openapi.json the contract. Of our own."),
    Key("rest.read.only", BOOLEAN, False, LOW,
        "Whether REST refuses every request that changes something, with 403. Of our own."),
    Key("rest.ui.enabled", BOOLEAN, True, LOW,
        "Whether /ui shows links and connectors in a browser, and manages them. Of our own."),
)

# Whose names Kafka's own metrics have, and how many series there are: app/exposition has both again, as values.
METRICS_KEYS: Final = ConfigTable(
    Key("metrics.port", INT, None, MEDIUM,
        "Port for Prometheus alone, as 9404: /metrics without login and TLS. Not given: there is none.",
        validator=_some_port),
    Key("metrics.host", STRING, "", LOW, "Address of that port; empty: every address."),
    Key("metrics.names", LIST, ["jmx"], LOW,
        "Names of Kafka's own metrics: jmx as of jmx_exporter with Strimzi's rules, reporter as of Strimzi's Metrics "
        "Reporter.",
        validator=distinct("jmx", "reporter", empty=True)),
    Key("metrics.detail", STRING, "partition", LOW,
        "Whether series of topics are for each partition, or fewer: one for each topic.",
        validator=one_of("partition", "topic")),
)


def _functions(name: str, value: Any, quote: Quote) -> str | None:
    for each in value or ():
        if (problem := entry_problem(each)) is not None:
            return f"Invalid value {quote(each)} for configuration {name}: {problem}"
    return distinct()(name, value, quote)


_SPARK_KEYS: Final = ConfigTable(
    # Four tries: Spark replaces a killed Python worker at once, in the same query.
    Key("spark.master", STRING, "local[64,4]", MEDIUM,
        "Where tasks run: local[SLOTS,TRIES] on this machine; spark://HOST:PORT, yarn or k8s://HOST:PORT on a cluster. "
        "All other spark.* settings are handed to Spark, too."),
    Key("spark.driver.host", STRING, None, LOW,
        "Address of Spark's driver. Not given: 127.0.0.1; on a cluster this machine's, on the way to the master."),
    Key("spark.driver.bindAddress", STRING, None, LOW,
        "Address that Spark's driver listens on. Not given: 127.0.0.1; on a cluster the one found for spark.driver.host, "
        "or every address if that is given."),
    Key(ALLOWED_SETTING, LIST, [], LOW,
        "Which functions of your own a connector may name (spark.transform.python): packages, modules, or "
        "package.module:function. Not given: none. Whoever may write connector configs can have them run.",
        validator=_functions),
    Key(ALLOWED_PATHS, LIST, [], LOW,
        "Absolute paths of directories from which lookups of connectors may read files (spark.transform.lookup.NAME). "
        "Not given: no file may be read. Whoever may write connector configs can have all in them read.",
        validator=distinct()),
)

# Only with a cluster as spark.master.
_TASK_LISTENER_KEYS: Final = ConfigTable(
    Key("task.listener.host", STRING, "", LOW,
        "On a cluster: address on which this worker listens for its tasks; empty: that of Spark's driver. Of our own."),
    Key("task.listener.port", INT, 0, LOW,
        "On a cluster: port on which this worker listens for its tasks; 0: any free one. Of our own.",
        validator=between(0, _MOST_PORT)),
    Key("task.advertised.host.name", STRING, "", LOW,
        "On a cluster: host under which executors reach this worker; empty: spark.driver.host. Of our own."),
    Key("task.advertised.port", INT, None, LOW,
        "On a cluster: port under which executors reach this worker; not given: task.listener.port. Of our own.",
        validator=_some_port),
)

_NETWORK_KEYS: Final = ConfigTable(
    Key("client.dns.lookup", STRING, "use_all_dns_ips", MEDIUM, "How names with several addresses are tried.",
        validator=one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
    Key("connections.max.idle.ms", LONG, 540000, MEDIUM, "Connections unused for so long are closed."),
    Key("metadata.max.age.ms", LONG, 300000, LOW, "Milliseconds after which metadata are asked for again.",
        validator=between(0)),
    Key("metadata.recovery.strategy", STRING, "rebootstrap", LOW, "What to do when no known broker answers.",
        validator=one_of_in_any_case("REBOOTSTRAP", "NONE")),
    Key("metadata.recovery.rebootstrap.trigger.ms", LONG, 300000, LOW,
        "Milliseconds without metadata after which to begin with bootstrap.servers again.", validator=between(0)),
    Key("receive.buffer.bytes", INT, 32768, MEDIUM,
        "Receive buffer of sockets; -1: the system's.", validator=between(-1)),
    Key("send.buffer.bytes", INT, 131072, MEDIUM, "Send buffer of sockets; -1: the system's.", validator=between(-1)),
    Key("reconnect.backoff.ms", LONG, 50, LOW,
        "First pause before a broker is connected to again.", validator=between(0)),
    Key("reconnect.backoff.max.ms", LONG, 1000, LOW, "Longest such pause.", validator=between(0)),
    Key("request.timeout.ms", INT, 40000, MEDIUM, "Longest wait for an answer, in milliseconds.", validator=between(0)),
    Key("retry.backoff.ms", LONG, 100, LOW, "First pause before a request is sent again.", validator=between(0)),
    Key("retry.backoff.max.ms", LONG, 1000, LOW, "Longest such pause.", validator=between(0)),
    Key("socket.connection.setup.timeout.ms", LONG, 10000, LOW, "Longest wait for a connection.", validator=between(0)),
    Key("socket.connection.setup.timeout.max.ms", LONG, 30000, LOW, "Longest such wait after failures.",
        validator=between(0)),
    CLIENT_AUTH_KEY,
    *(Key(name, STRING, None, LOW, _JAVA) for name in (
        "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "metric.names.formats",
        "key.converter.plugin.version", "value.converter.plugin.version", "header.converter.plugin.version",
    )),
)
# fmt: on

WORKER_KEYS: Final = (
    _OWN_KEYS
    + _REST_KEYS
    + METRICS_KEYS
    + INTER_WORKER_KEYS
    + _SPARK_KEYS
    + _TASK_LISTENER_KEYS
    + _NETWORK_KEYS
    + ConfigTable(SECURITY_PROTOCOL_KEY)
    + TLS_KEYS
    + SASL_KEYS
)
# Other tables check what follows these: converters, providers, Spark, client kinds, topics, listeners' TLS.
KNOWN_PREFIXES: Final = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "producer.",
    "consumer.",
    "admin.",
    "spark.",
    MAIN_PREFIX,
    ADMIN_PREFIX,
    "metrics.context.",
)

# What only a worker with a group has: the rest of Connect's DistributedConfig.
_OF_GROUPS: Final = frozenset(
    {
        "group.id",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "rebalance.timeout.ms",
        "scheduled.rebalance.max.delay.ms",
        "connect.protocol",
        "worker.sync.timeout.ms",
        "worker.unsync.backoff.ms",
        "exactly.once.source.support",
    }
)
OFFSETS_FILE: Final = "offset.storage.file.filename"


# What follows `config.storage.` and the like, and is no setting of the topic.
_OF_STORAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "config.storage.": ("topic", "partitions", "replication.factor"),
    "offset.storage.": ("topic", "partitions", "replication.factor", "file.filename"),
    "status.storage.": ("topic", "partitions", "replication.factor"),
}


def likely_storage_name(name: str) -> str | None:
    """What was meant by `offset.storage.partitons`, which is taken for a setting of the topic; None if it may be one."""
    for prefix, own in _OF_STORAGES.items():
        rest = name.removeprefix(prefix)
        if rest not in {name, *own} and (likely := likely_name(rest, own)) is not None:
            return f"{prefix}{likely}"
    return None


def is_of_groups(name: str) -> bool:
    """Whether a setting means something only to a worker of distributed mode."""
    kinds = ("config.storage.", "offset.storage.", "status.storage.", "inter.worker.")
    return name in _OF_GROUPS or (name.startswith(kinds) and name != OFFSETS_FILE)


# Of Connect's StandaloneConfig.
STANDALONE_KEYS: Final = ConfigTable(
    Key(OFFSETS_FILE, STRING, REQUIRED, HIGH, "File with the source offsets of a standalone worker's connectors."),
    *(key for key in WORKER_KEYS if not is_of_groups(key.name)),
)
