"""mm2.properties files to record Kafka's answers for: the examples of Kafka's guide, one case each, and some by chance.

Comments of the guide that stand behind values are kept in their places, because they change the values.
"""

from __future__ import annotations

import random
from typing import Final

_BROKERS: Final = "A.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n"
_AB: Final = "clusters = A, B\n" + _BROKERS
_ON: Final = _AB + "A->B.enabled = true\n"
_ENV: Final = (
    "config.providers = env\n"
    "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    "config.providers.env.param.allowlist.pattern = MM2_.*\n"
)
_WEST_EAST: Final = (
    "clusters = us-west, us-east\n"
    "us-west.bootstrap.servers = broker3-west:9092\n"
    "us-east.bootstrap.servers = broker5-east:9092\n"
)
SIX: Final = ("west-1", "west-2", "east-1", "east-2", "north-1", "north-2")
# Within each place both ways, and between the places by their first clusters.
SIX_FLOWS: Final = (
    *((f"{place}-{one}", f"{place}-{3 - one}") for place in ("west", "east", "north") for one in (1, 2)),
    *(
        (f"{one}-1", f"{other}-1")
        for one in ("west", "east", "north")
        for other in ("west", "east", "north")
        if one != other
    ),
)

GUIDE: Final = {
    "guide: active and passive": (
        "# Basic settings\nclusters = primary, secondary\nprimary.bootstrap.servers = broker3-primary:9092\n"
        "secondary.bootstrap.servers = broker5-secondary:9092\n# Flows\nprimary->secondary.enabled = true\n"
        "primary->secondary.topics = foobar-topic, quux-.*\n"
    ),
    "guide: comments behind values": (
        "clusters = us-west, us-east # defines cluster aliases\nus-west.bootstrap.servers = broker3-west:9092\n"
        "us-east.bootstrap.servers = broker5-east:9092\ntopics = .* # all topics to be replicated by default\n"
        "us-west->us-east.enabled = true\nus-west->us.east.topics = foo.*, bar.*  # override the default above\n"
    ),
    "guide: settings of Connect": _WEST_EAST
    + "us-west->us-east.enabled = true\ntasks.max = 5\nus-west.offset.storage.topic = my-mirrormaker-offsets\n",
    "guide: settings of clients": _WEST_EAST
    + "us-west.consumer.isolation.level = read_committed\nus-west.admin.bootstrap.servers = broker57-primary:9092\n"
    "us-east.producer.compression.type = gzip\nus-east.producer.buffer.memory = 32768\n"
    "us-east.admin.bootstrap.servers = broker8-secondary:9092\nus-west->us-east.enabled = true\n",
    "guide: exactly once": _WEST_EAST
    + "us-west->us-east.enabled = true\nus-east.exactly.once.source.support = enabled\n"
    "dedicated.mode.enable.internal.rest = true\nlisteners = http://localhost:8080\n"
    "us-west.consumer.isolation.level = read_committed\n",
    "guide: several brokers": (
        "clusters = primary, secondary\nprimary.bootstrap.servers = broker10-primary:9092,broker-11-primary:9092\n"
        "secondary.bootstrap.servers = broker5-secondary:9092,broker6-secondary:9092\n"
        "primary->secondary.enabled = true\n"
    ),
    "guide: top level and flow": _WEST_EAST
    + "topics = .*\ngroups = consumer-group1, consumer-group2\nus-west->us-east.enabled = true\n"
    "us-west->us-east.topics = foo.*\nus-west->us-east.groups = bar.*\nus-west->us-east.emit.heartbeats = false\n",
    "guide: TLS of one cluster": _WEST_EAST + "us-west->us-east.enabled = true\nus-east.security.protocol=SSL\n"
    "us-east.ssl.truststore.location=/path/to/truststore.jks\nus-east.ssl.truststore.password=my-secret-password\n"
    "us-east.ssl.keystore.location=/path/to/keystore.jks\nus-east.ssl.keystore.password=my-secret-password\n"
    "us-east.ssl.key.password=my-secret-password\n",
    "guide: separator": _WEST_EAST
    + "us-west->us-east.enabled = true\nus-west->us-east.replication.policy.separator = _\n",
    "guide: one way without clusters": (
        "primary.bootstrap.servers = broker1-primary:9092\nsecondary.bootstrap.servers = broker2-secondary:9092\n"
        "primary->secondary.enabled = true\nsecondary->primary.enabled = false\n"
        "primary->secondary.topics = foo.* # only replicate some topics\n"
    ),
    "guide: two ways": (
        "clusters = us-west, us-east\nus-west.bootstrap.servers = broker1-west:9092,broker2-west:9092\n"
        "Us-east.bootstrap.servers = broker3-east:9092,broker4-east:9092\n"
        "us-west->us-east.enabled = true\nus-east->us-west.enabled = true\n"
    ),
    "guide: six clusters": f"clusters: {', '.join(SIX)}\n"
    + "".join(f"{alias}.bootstrap.servers = {alias}:9092\n" for alias in SIX)
    + "".join(f"{source}->{target}.enabled = true\n" for source, target in SIX_FLOWS),
    "other guide: blank separator": (
        "clusters = src, dst\ndst.bootstrap.servers = h1:9092,h2:9092,h3:9092\n"
        "src.bootstrap.servers = h4:9092,h5:9092\n"
        "src->dst.enabled = true\ntopics =events\ngroups = *\nreplication.factor=3\n"
        "status.storage.replication.factor=3\nconfig.storage.replication.factor=3\n"
        "offset.storage.replication.factor=3\n"
        "replication.policy.separator =\nsync.topic.acls.enabled = false\nemit.heartbeats.interval.seconds = 5\n"
    ),
}

CASES: Final = {
    "one flow": _ON,
    "no clusters": "topics = x\n",
    "empty clusters": "clusters =\n",
    "an empty entry": "clusters = A,,B\n",
    "a cluster twice": "clusters = A, B , A\n" + _BROKERS,
    "blanks around commas": "clusters =  A\\t ,\\u0020B,C \n" + _BROKERS + "A->B.enabled=true\n",
    "disabled everywhere": _AB,
    "heartbeats off": _ON + "emit.heartbeats.enabled = false\n",
    "heartbeats off, nothing on": _AB + "emit.heartbeats.enabled = false\n",
    "heartbeats off for one flow": _ON + "B->A.emit.heartbeats.enabled = false\n",
    "heartbeats on for one flow": _ON + "emit.heartbeats.enabled = false\nB->A.emit.heartbeats.enabled = TRUE\n",
    "booleans as Java reads them": _AB
    + "A->B.enabled = True\nB->A.enabled = yes\nemit.heartbeats.enabled = no\nB->A.emit.heartbeats.enabled =\n",
    "a blank behind true": _AB + "A->B.enabled = true \nemit.heartbeats.enabled = false\n",
    "enabled at the top": _AB + "enabled = true\n",
    "three clusters": "clusters = A, B, C\n" + _BROKERS + "C.bootstrap.servers = c:1\n"
    "A->B.enabled = true\nB->C.enabled = true\n",
    "aliases that begin alike": (
        "clusters = a, a.b, a-b\na.bootstrap.servers = 1:1\na.b.bootstrap.servers = 2:2\n"
    "a-b.bootstrap.servers = 3:3\n"
        "a->a.b.enabled = true\na.b->a.topics = x\na->a.b.topics = y\na->a-b.enabled = true\n"
    "emit.heartbeats.enabled = false\n"
    ),
    "clients of both clusters": _ON
    + "A.consumer.fetch.max.bytes = 1\nA.producer.acks = 1\nA.admin.retries = 2\nB.consumer.fetch.max.bytes = 3\n"
    "B.producer.acks = all\nB.admin.retries = 4\nA.client.id = of-a\nB.client.id = of-b\n",
    "clients of one flow": _ON
    + "A.consumer.fetch.max.bytes = 1\nA->B.source.consumer.fetch.max.bytes = 2\nA->B.consumer.fetch.max.bytes = 3\n"
    "A->B.target.producer.acks = 1\nA->B.producer.override.linger.ms = 5\n"
    "A->B.source.cluster.security.protocol = SSL\n",
    "clients at the top": _ON
    + "consumer.fetch.max.bytes = 1\nproducer.acks = 1\nadmin.retries = 2\nsource.consumer.fetch.max.bytes = 1\n",
    "logins at the top": _ON
    + "security.protocol = SASL_SSL\nsasl.mechanism = PLAIN\nsasl.jaas.config = X required a=\"b\";\n"
    "B.security.protocol = SSL\n"
    "bootstrap.servers = fallback:9092\nB.producer.sasl.mechanism = SCRAM-SHA-256\n",
    "brokers at the top": "clusters = A, B\nbootstrap.servers = both:9092\nA->B.enabled = true\n",
    "names that begin like clients": _ON + "A.administrator = x\nA.consumers = 2\nB.produced = y\n"
    "B.admin = z\nB.client.rack = r\n",
    "storage topics": _ON
    + "offset.storage.topic = top\nB.offset.storage.topic = of-b\nB.status.storage.topic = of-b-too\n"
    "A.config.storage.topic = of-a\n"
    "offset.storage.partitions = 3\nconfig.storage.replication.factor = 1\nB.status.storage.replication.factor = 1\n"
    "offset.storage = x\noffset.storages = y\n",
    "converters": _ON
    + "key.converter = org.apache.kafka.connect.json.JsonConverter\nkey.converter.schemas.enable = false\n"
    "B.value.converter = org.apache.kafka.connect.storage.StringConverter\n"
    "B.key.converter = org.apache.kafka.connect.storage.StringConverter\nheader.converters = x\n",
    "tasks and workers": _ON
    + "tasks.max = 7\nA->B.tasks.max = 9\ntask.shutdown.graceful.timeout.ms = 1\n"
    "worker.sync.timeout.ms = 2\nworkers = 3\n"
    "B.task.shutdown.graceful.timeout.ms = 4\n",
    "worker of one target": _ON
    + "B.group.id = mine\nB.client.id = also-mine\nB.offset.flush.interval.ms = 5000\n"
    "A.offset.flush.interval.ms = 6000\n"
    "offset.flush.interval.ms = 7000\nB.exactly.once.source.support = preparing\nB.rebalance.timeout.ms = 9\n",
    "policy at every level": _ON
    + "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    "replication.policy.separator = -\n"
    "replication.policy.internal.topic.separator.enabled = false\nreplication.policy.mine = 1\n"
    "replication.policyx = 2\n"
    "A->B.replication.policy.separator = _\nB.replication.policy.separator = +\n",
    "policy of a cluster": _ON + "B.replication.policy.separator = +\nA.replication.policy.separator = -\n",
    "a blank separator": _ON + "replication.policy.separator = \\ \n",
    "source settings at the top": _ON
    + "use.defaults.from = source\nA->B.use.defaults.from = source\nexactly.once.support = required\n"
    "transaction.boundary = poll\n"
    "topic.creation.groups = x\ntransforms = t\ntransforms.t.type = T\npredicates = p\noffsets.storage.topic = o\n",
    "names and classes": _ON + "name = mine\nconnector.class = Other\nsource.cluster.alias = S\n"
    "A->B.target.cluster.alias = T\n",
    "name of one flow": _ON + "A->B.name = mine\nB->A.name = yours\n",
    "aliases of clusters": _ON + "A.alias = x\nB.alias = y\n",
    "unknown names": _ON + "emit.heartbeat.enabled = false\nA->B.topic = x\n"
    "sync.topic.acl.enabled = false\ntasks.maximum = 9\n",
    "prefixes alone": _ON + "A. = x\nA->B. = y\n= z\n. = w\n",
    "an unknown cluster": _ON + "A->C.enabled = true\nC.bootstrap.servers = c:1\n",
    "itself": _ON + "A->A.enabled = true\n",
    "equal names": _ON + "topics = a\ntopics = b\nA->B.enabled = false\n",
    "references": _ON + _ENV + "topics = ${env:MM2_TOPICS}\nB.sasl.jaas.config = ${env:MM2_SECRET}\n"
    "A.consumer.x = ${env:MM2_SECRET}\n"
    "tasks.max = ${env:MM2_NOT_THERE}\nB.config.providers = other\nA->B.enabled = true\n",
    "references in clusters": _ENV + "clusters = ${env:MM2_CLUSTERS}\n" + _BROKERS + "A->B.enabled = ${env:MM2_TRUE}\n"
    "emit.heartbeats.enabled = ${env:MM2_FALSE}\n",
    "references without a provider": _ON + "topics = ${file:/x:y}\nB.producer.x = ${env:MM2_SECRET}\n",
    "internal rest": _ON + "dedicated.mode.enable.internal.rest = true\nlisteners = http://:8083, https://:8443\n",
    "internal rest, not a boolean": _ON + "dedicated.mode.enable.internal.rest = maybe\n",
    "a wrong protocol": _ON + "security.protocol = SLS\n",
    "a wrong list of providers": _ON + "config.providers = a,,b\n",
    "everything by a colon or a blank": "clusters:A,B\nA.bootstrap.servers a:1\nB.bootstrap.servers:b:1\n"
    "A->B.enabled true\n",
    "escapes": "clusters = A, B\nA.bootstrap.servers = a\\:1,\\\n   a\\:2\n"
    "B.bootstrap.servers=b\\u003a1\nA\\->B.enabled = tr\\u0075e\n"
    "topics = caf\\u00e9,\xe9\nA->B.topics.exclude = a\\\\.b,\\\n  c\n",
    "names with colons and equals signs": _ON + "A->B.x\\:y = 1\nA->B.x\\=y = 2\nA.p\\ q = 3\n",
    "keys with line ends": _ON + "A.consumer\\nx = 1\nA.consumer.a\\nb = 2\n",
}  # fmt: skip

_NAMES: Final = (
    *("topics", "groups", "tasks.max", "enabled", "emit.heartbeats.enabled", "use.defaults.from", "replication.factor"),
    *("replication.policy.separator", "replication.policy.class", "offset.lag.max", "sync.topic.acls.enabled", "name"),
    *(
        "bootstrap.servers",
        "security.protocol",
        "ssl.truststore.location",
        "sasl.jaas.config",
        "sasl.mechanism",
        "alias",
    ),
    *("producer.acks", "consumer.group.id", "admin.retries", "producer.bootstrap.servers", "consumer.sasl.mechanism"),
    *(
        "offset.storage.topic",
        "config.storage.replication.factor",
        "status.storage",
        "key.converter",
        "header.converter.x",
    ),
    *("task.x", "worker.y", "group.id", "client.id", "offset.flush.interval.ms", "exactly.once.source.support"),
    *(
        "source.consumer.x",
        "target.producer.y",
        "source.cluster.alias",
        "consumer.poll.timeout.ms",
        "administer",
        "a",
        "b.c",
    ),
)


def by_chance(number: int, seed: int = 1) -> dict[str, str]:
    """Some files of properties at all levels, the same for each seed. Some lines overwrite earlier ones."""
    chance = random.Random(seed)
    texts = {}
    for count in range(number):
        clusters = chance.sample(["A", "B", "A.B", "c-1", "D"], chance.randint(1, 3))
        lines = [f"clusters = {', '.join(clusters)}"]
        for _ in range(chance.randint(5, 25)):
            source, target = chance.choice(["A", "B", *clusters]), chance.choice(["B", *clusters])
            prefix = chance.choice(["", f"{source}.", f"{source}->{target}.", f"{source}->{target}."])
            name = chance.choice([*_NAMES, "enabled"])
            value = chance.choice(["true", "false"]) if "enabled" in name else f"{name[:3]}{chance.randint(0, 9)}"
            if name == "security.protocol":
                value = chance.choice(["SSL", "ssl", "PLAINTEXT"])
            lines.append(f"{prefix}{name} = {value}")
        texts[f"by chance {count}"] = "\n".join(lines) + "\n"
    return texts


def odd_properties(number: int, seed: int = 2) -> dict[str, str]:
    """Short texts of the characters that Java's properties files know, the same for each seed."""
    chance = random.Random(seed)
    pieces = (
        *"ab=: \t\f\n\r\\#!u",
        "\r\n",
        "\\u0041",
        "\\u00e9",
        "\\n",
        "\\\n",
        "\xe9",
        "\xa0",
        "\x85",
        "k=v\n",
        "  ",
        "\x0b",
        "\x00",
    )
    return {f"odd {count}": "".join(chance.choices(pieces, k=chance.randint(1, 14))) for count in range(number)}
