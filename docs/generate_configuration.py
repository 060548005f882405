"""Prints docs/configuration.md from the tables that the code reads: `python -m docs.generate_configuration`.

What it says of a client property's effect is asked of the code that decides it (copier_settings.notices), not told again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from mirror_connect.app.config.statement_properties import DEFAULT_MEMORY
from mirror_connect.app.config.worker_keys import (
    KNOWN_PREFIXES,
    OFFSETS_FILE,
    STANDALONE_KEYS,
    WORKER_KEYS,
    is_of_groups,
)
from mirror_connect.connectors import DEFINITIONS
from mirror_connect.connectors.config.framework_settings import CONNECTOR_KEYS, SOURCE_KEYS
from mirror_connect.connectors.config.table import REQUIRED, ConfigTable, Key
from mirror_connect.connectors.config.values import LIST, wire_text
from mirror_connect.connectors.definition import ConnectorDefinition
from mirror_connect.connectors.mirror.transform_sql import OF_WORKERS
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, Kind
from mirror_connect.kafka_io.client.copier_settings import (
    CONSUMER_HONOURED,
    PRODUCER_HONOURED,
    WINDOW,
    ProducerSettings,
    notices,
)
from mirror_connect.kafka_io.client.idle_properties import SECURITY, SECURITY_IN_EFFECT
from mirror_connect.kafka_io.client.round_trip import FAR_S
from mirror_connect.kafka_io.client.sasl import MECHANISMS
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings
from mirror_connect.kafka_io.producer.leader_state import FAR_WINDOW
from mirror_connect.kafka_io.producer.sender import WIRE_LIMIT
from mirror_connect.kafka_io.producer.target_broker import NEAR_REQUESTS
from mirror_connect.spark_jobs.cluster_settings import (
    ARCHIVE_PYTHON,
    ARCHIVES,
    CLUSTER_SETTINGS,
    CLUSTERS,
    CORES,
    ENVIRONMENT,
    EXECUTOR_OPTIONS,
    MB_A_SLOT,
    MB_AN_EXECUTOR,
    OVERHEAD,
    PYTHON,
)
from mirror_connect.spark_jobs.spark_settings import (
    DEFAULTS,
    FIXED,
    FIXED_IF_LOCAL,
    JVM_OPTIONS,
    OF_LOOPBACK,
    STATEMENT_JVM_OPTIONS,
)

COMMAND: Final = "python -m docs.generate_configuration > docs/configuration.md"
INTRODUCTION: Final = f"""# Configuration

<!-- Generated from the tables in the code, do not edit: {COMMAND} -->

There are three kinds of settings. The **worker's** are in the properties file for `bin/connect-distributed.sh` or
`bin/connect-standalone.sh`. A **connector's** are in the JSON of the PUT request. Those of **Kafka's clients** are in
both, with a prefix. Names, types and defaults are those of Kafka 4.3.1. The tables say what has no effect here. Examples:
[worker.properties](../deploy/sample/worker.properties), [mirror-source.json](../deploy/sample/mirror-source.json).
How this differs from Kafka Connect and MirrorMaker 2: [compatibility.md](compatibility.md).

A value may be a reference `${{provider:path:key}}` to a config provider: `FileConfigProvider`, `DirectoryConfigProvider`
and `EnvVarConfigProvider` of `org.apache.kafka.common.config.provider`, declared in the worker's file
(`config.providers=file`, `config.providers.file.class=…`). Connector configs are stored and shown with the reference.

Three more are those that Strimzi adds to its images. `io.strimzi.kafka.KubernetesSecretConfigProvider` and
`io.strimzi.kafka.KubernetesConfigMapConfigProvider` read an object of Kubernetes: `${{secrets:NAMESPACE/NAME:KEY}}`, or
`${{secrets:NAME:KEY}}` in the worker's own namespace. A key may be a pattern (`*.crt`); the values of all matching keys are
joined by a line break, or by `config.providers.secrets.param.separator`. A key that is not there gives an empty value and
a warning. The way to the API is the file of `KUBECONFIG` or `~/.kube/config` if it exists, else the service account of
the pod (`KUBERNETES_SERVICE_HOST`, `KUBERNETES_SERVICE_PORT`), whose token is read anew for each request. The account
needs the verb `get` on those objects, and no more. An answer has 5 s and 4 MiB at most.
`io.strimzi.kafka.EnvVarConfigProvider` is the older form of Kafka's.

The environment:

- `MIRROR_CONNECT_LOG_LEVEL`: DEBUG, INFO (the default), WARNING, ERROR or CRITICAL.
- `MIRROR_CONNECT_LOG_FORMAT`: text (the default) or json, over `log.format` of the worker's file
  ([install.md](install.md#the-log-as-json)).
- `JAVA_HOME`: which Java to use. `TMPDIR`: where Spark puts scratch files.
- `KAFKA_OPTS`: `-Djava.security.auth.login.config=FILE` names the login file of Basic auth.
  `-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=URL,URL` lists the token endpoints that OAUTHBEARER logins may ask;
  without it none.
- `KAFKA_HEAP_OPTS`: `-Xmx` and `-Xms` size the heap of Spark's JVM, unless `spark.driver.memory` is set.
  [install.md](install.md#start-scripts) has the other variables of Kafka's start scripts.

Limit what providers give (`config.providers.file.param.allowed.paths=DIRECTORY`, `….param.allowlist.pattern=REGEX`),
because a connector may send any of it anywhere. Without a limit the log warns at the start if REST is reachable from
other machines without a login.
"""

PREFIXES: Final = """## Client settings in a connector

For a client of one *kind* (`consumer`, `admin`, `producer`) on one *side* (`source`, `target`) the later one wins:

1. `SIDE.cluster.NAME`, for `bootstrap.servers`, `security.protocol`, `ssl.*` and `sasl.*` only
2. `KIND.NAME`, for both sides
3. `SIDE.KIND.NAME`

The data's producer is another one, as in Kafka Connect: the worker's `producer.*` (over the worker's top level), then the
connector's `producer.override.*`. If `target.cluster.bootstrap.servers` leads to another cluster than the worker's, other
settings count: the connector's `target.cluster.*`, `producer.*` and `target.producer.*`, then `producer.override.*`.
"""


def document() -> str:
    """The whole of docs/configuration.md."""
    parts = [INTRODUCTION, *_worker(), *_spark()]
    for definition in DEFINITIONS:
        parts += _connector(definition)
    parts += [PREFIXES, *_client("consumer"), *_client("producer"), *_client("admin"), *_security()]
    return "\n".join(parts)


def _worker() -> list[str]:
    # All other spark.* are Spark's.
    own = ConfigTable(
        *(
            key
            for key in WORKER_KEYS
            if key.name not in SECURITY and (not key.name.startswith("spark.") or key.name in OF_WORKERS)
        )
    )
    prefixes = ", ".join(f"`{prefix}*`" for prefix in KNOWN_PREFIXES)
    return [
        "## Worker\n",
        _table(own),
        f"\nSecurity settings (`security.protocol`, `ssl.*`, `sasl.*`: below) and those of Kafka's clients stand at the\n"
        f"top level too, for the worker's own clients. These prefixes are known: {prefixes}.\n"
        "Any other name is named in one warning at the start and has no effect.\n",
        "A [standalone](standalone.md) worker needs one setting more. It has none of these: "
        f"{', '.join(f'`{key.name}`' for key in own if is_of_groups(key.name))}.\n",
        _table(ConfigTable(STANDALONE_KEYS.keys[OFFSETS_FILE])),
        "",
    ]


def _spark() -> list[str]:
    rows = [f"| `{name}` | `{value}` |" for name, value in DEFAULTS.items()]
    names = [f"`{name}`" for name in sorted({**FIXED, **FIXED_IF_LOCAL})]
    return [
        "## Spark\n",
        "Every `spark.*` setting of the worker's file is handed to Spark, over these defaults:\n",
        "| setting | default |\n| --- | --- |",
        *rows,
        f"\nNot to be changed with a local master: {', '.join(names)}.\n"
        f"`spark.driver.extraJavaOptions` is added to `{JVM_OPTIONS}`.\n"
        "`spark.transform.NAME` is `spark.NAME` of the [application for statements]"
        "(worker-and-tasks.md#two-spark-applications),\n"
        "over all the others: its `spark.transform.driver.memory` is "
        f"`{DEFAULT_MEMORY}`, and its code is generated. Its Java options are\n"
        f"`{STATEMENT_JVM_OPTIONS}`. With a cluster these settings have no effect.\n"
        "`spark.local.dir` and `spark.sql.warehouse.dir` lie in a scratch directory below `TMPDIR`, new at every start.\n"
        "The second number of `local[64,4]` is how often Spark tries a task whose process was killed. Each running Connect\n"
        "task needs one of the 64 slots; [light tasks](worker-and-tasks.md#light-tasks-share-a-process) share one.\n",
        *_clusters(),
    ]


def _clusters() -> list[str]:
    rows = [
        f"| `{each.name}` | `{each.value}` | {'no' if each.fixed else 'yes'} | "
        f"{'all' if each.kinds == CLUSTERS else ', '.join(kind.value for kind in each.kinds)} | {each.reason} |"
        for each in CLUSTER_SETTINGS
    ]
    everywhere = ", ".join(f"`{name}`" for name in FIXED)
    unlike = ", ".join(f"`{name}`" for name in OF_LOOPBACK)
    return [
        "### Spark on a cluster\n",
        "With another `spark.master` than `local[…]` the [cluster](cluster.md)'s executors run the tasks. Then these\n"
        f"settings are added to the defaults above, of which {unlike} don't apply. A value that has no effect is named in\n"
        "a warning at the start.\n",
        "| setting | value | may be changed | master | why |\n| --- | --- | --- | --- | --- |",
        *rows,
        f"\nNot to be changed on any master: {everywhere}.\n"
        f"`{PYTHON}` is the Python of executors: `{ARCHIVE_PYTHON}` if `{ARCHIVES}` has an archive with\n"
        f"`#{ENVIRONMENT}`, else the path of the worker's own Python.\n"
        f"`{OVERHEAD}` is by default {MB_AN_EXECUTOR} MB, and {MB_A_SLOT} MB more for each of `{CORES}`: task\n"
        "processes are no part of the JVM's heap. A standalone cluster has no such setting.\n"
        f"`{EXECUTOR_OPTIONS}` is added to options that keep an executor's JVM small.\n"
        "`spark.deploy.maxExecutorRetries` is a setting of the standalone master, not of an application. Set it to -1\n"
        "there: by default the master ends an application whose executors ended ten times in a row.\n"
        "`spark.local.dir` of executors is that of their cluster. Fixed ports for a firewall are Spark's own settings:\n"
        "`spark.driver.port`, `spark.driver.blockManager.port`, `spark.blockManager.port`.\n",
    ]


def _connector(definition: ConnectorDefinition) -> list[str]:
    own = ConfigTable(*(key for key in definition.keys if key.name not in SECURITY))
    names = " or ".join(f"`{name}`" for name in definition.names)
    return [
        f"## {definition.simple_name}\n",
        f"`connector.class`: {names}.\n",
        _table(own),
        "\nSecurity settings without a prefix are checked and not used, as in MirrorMaker 2.\n",
        *(["Of this product alone:\n", _table(definition.own_keys), ""] if definition.own_keys.keys else []),
        "### Settings of every source connector\n",
        _table(CONNECTOR_KEYS + SOURCE_KEYS),
        "",
    ]


def _client(kind: Kind) -> list[str]:
    keys = [key for key in CLIENT_KEYS[kind] if key.name not in SECURITY]
    if kind == "admin":
        return [
            "### admin\n",
            "Administration goes through librdkafka. A number that it refuses becomes the nearest one that it takes.\n",
            _table(keys),
            "",
        ]
    honoured = CONSUMER_HONOURED if kind == "consumer" else PRODUCER_HONOURED
    defaults = _own_defaults(kind)
    lines = [
        f"| `{key.name}` | {defaults.get(key.name, _default(key))} | {_text(_OWN_MEANINGS.get(key.name, key.meaning))} |"
        for key in keys
        if key.name in honoured
    ]
    silent: list[str] = []
    named: list[str] = []
    for key in keys:
        if key.name not in honoured:
            (named if _is_named(kind, key.name) else silent).append(key.name)
    return [
        f"### {kind} of the records\n",
        "Batches are copied whole, so these have an effect:\n",
        "| property | default here | meaning |\n| --- | --- | --- |",
        *lines,
        f"\nNamed once in the worker's log as without effect: {_names(named)}.\n",
        f"Without effect, and not named, as Connect sets them or they say what is done anyway: {_names(silent)}.\n",
        f"Far away is a broker with a round trip of more than {FAR_S * 1000:.0f} ms.\n",
        "A name that no Kafka client knows draws one warning.\n",
    ]


# Where a copier of batches does something else with the value than Java's clients.
_OWN_MEANINGS: Final = {
    "acks": "Always `all`. Another value draws one line in the log.",
    "buffer.memory": f"Most bytes under way to brokers that are far away, but never below {WIRE_LIMIT}.",
    "max.in.flight.requests.per.connection": (
        "Most requests in flight to a broker, and batches of a partition. "
        f"A value that is set keeps a partition to {WINDOW} batches, also if the target is far away."
    ),
}


def _own_defaults(kind: Kind) -> dict[str, str]:
    """Where a copier of batches begins from other values than Java's clients."""
    buffers = {"receive.buffer.bytes": "-1", "send.buffer.bytes": "-1"}
    if kind == "producer":
        return {
            **buffers,
            "buffer.memory": str(ProducerSettings().buffer_bytes),
            "max.in.flight.requests.per.connection": (
                f"unset: {NEAR_REQUESTS}, or up to {FAR_WINDOW} if the target is far away"
            ),
            "max.request.size": str(ProducerSettings().max_request_bytes),
        }
    settings = FetchSettings.of({})
    return {
        **buffers,
        "fetch.max.bytes": f"{settings.max_bytes}, or {settings.far_max_bytes} if the source is far away",
        "max.partition.fetch.bytes": f"fetch.max.bytes if that is set, or else {settings.partition_max_bytes}",
        "auto.offset.reset": "earliest",
    }


def _is_named(kind: Kind, name: str) -> bool:
    return bool(notices({name: ""} if kind == "consumer" else {}, {name: ""} if kind == "producer" else {}))


def _security() -> list[str]:
    return [
        "## Security settings\n",
        f"`sasl.mechanism` may be {', '.join(MECHANISMS)}. OAUTHBEARER logs in by client credentials. Any other, also\n"
        "Kerberos (GSSAPI), is refused with a line that names the setting. "
        "Stores are PEM, PKCS12 or JKS, converted in memory.\n",
        _table(key for key in SECURITY if key.name in SECURITY_IN_EFFECT),
        "\nAccepted without effect, and named once in the log unless they are as Kafka's default: "
        f"{_names(name for name in SECURITY.keys if name not in SECURITY_IN_EFFECT)}.",
        "",
    ]


def _table(table: Iterable[Key]) -> str:
    keys = list(table)
    rows = [
        f"| `{key.name}` | {key.type.lower()} | {_default(key)} | {key.importance.lower()} | {_text(key.meaning)} |"
        for key in keys
        if not _is_javas(key)
    ]
    left = [key.name for key in keys if _is_javas(key)]
    head = "| setting | type | default | importance | meaning |\n| --- | --- | --- | --- | --- |"
    text = "\n".join([head, *rows])
    return f"{text}\n\nAccepted for Java's sake, without effect: {_names(left)}." if left else text


def _default(key: Key) -> str:
    if key.default is REQUIRED:
        return "**required**"
    text = wire_text(key.default, key.type)
    if text is None or (text == "" and key.type != LIST):
        return ""
    return f"`{_text(text)}`" if text else "empty"


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _text(text: str) -> str:
    return text.replace("|", "\\|")


def _is_javas(key: Key) -> bool:
    """Whether a setting is there so that files written for Java are accepted, and for nothing else."""
    return key.meaning.startswith(("Of a Java worker;", "Of a Java client;"))


if __name__ == "__main__":
    sys.stdout.write(document())
