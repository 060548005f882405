"""Every command of five guides that users follow, as written there, and what is run of it here.

The guides: Kafka's page on geo-replication, an article with a docker-compose demo, a vendor's page on MirrorMaker 2, an
introduction to MirrorMaker, and a page of best practices of MirrorMaker 1. Their texts are not in this repository.
docs/compatibility.md has a table of the rows whose command Kafka itself has changed since.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Told(NamedTuple):
    """A command of a guide. `today`: what is run for it, as written but for hosts and paths; empty if nothing is.

    `run_by`: the function of the test that runs it, or why there is none.
    """

    guide: str
    command: str
    today: str
    run_by: str

    @property
    def changed(self) -> bool:
        """Whether Kafka has another command for it today."""
        return bool(self.today) and self.today != self.command


GEO, DEMO, VENDOR, INTRO, BEST = (
    "geo-replication",
    "docker-compose demo",
    "MirrorMaker 2 guide",
    "introduction",
    "best practices",
)

_PRINT: Final = (
    '--property "print.timestamp=true" --property "print.key=true" --property "key.separator=:" '
    '--property "print.partition=true" --property "print.offset=true" --group my-cg'
)
_CONSUMER: Final = "/opt/kafka/bin/kafka-console-consumer.sh --bootstrap-server localhost:9092"
_CLIENT: Final = "/opt/kafka/config/client.properties"
_PRODUCER: Final = (
    'echo "$RANDOM:Hello, Kafka!" | '
    "/opt/kafka/bin/kafka-console-producer.sh --bootstrap-server localhost:9092 --topic test"
)
_PARSE: Final = '--property "parse.key=true" --property "key.separator=:"'


CREATE: Final = (
    "/opt/kafka/bin/kafka-topics.sh --bootstrap-server localhost:9092 --create --if-not-exists --topic test "
    "--replication-factor 1 --partitions 2 --command-config /opt/kafka/config/client.properties"
)
BROKER_HEALTH: Final = "bash -c 'printf \"\" > /dev/tcp/127.0.0.1/9092; exit $?;'"
WORKER: Final = "/opt/kafka/bin/connect-distributed.sh /opt/kafka/config/connect.properties"
DEPLOY: Final = "/opt/kafka/custom-scripts/deploy-connectors.sh"
WORKER_HEALTH: Final = (
    "curl -IL --silent -u health:health-secret --insecure http://localhost:8083 | grep HTTP | grep -q 200"
)
CONSUME_BOTH: Final = f'{_CONSUMER} --whitelist "^(kafka-1\\\\.)?test$" --consumer.config {_CLIENT} {_PRINT}'
CONSUME_TEST: Final = f'{_CONSUMER} --whitelist "test" --consumer.config {_CLIENT} {_PRINT}'
PRODUCE: Final = f"{_PRODUCER} --producer.config {_CLIENT} {_PARSE}"

LIST: Final = "/usr/lib/kafka/bin/kafka-topics.sh --list --bootstrap-server hostname:9092"
CREATE_SOURCE: Final = (
    "/usr/lib/kafka/bin/kafka-topics.sh --create --topic <test_topic_name> --bootstrap-server hostname:9092"
)
PRODUCE_SOURCE: Final = (
    "/usr/lib/kafka/bin/kafka-console-producer.sh --topic <test_topic_name> --bootstrap-server hostname:9092"
)
CONSUME_REPLICA: Final = (
    "/usr/lib/kafka/bin/kafka-console-consumer.sh --topic <source_cluster_alias>.<test_topic_name> "
    "--from-beginning --bootstrap-server hostname:9092"
)

OFFSET_CHECKER: Final = (
    "bin/kafka-run-class.sh kafka.tools.ConsumerOffsetChecker --group KafkaMirror "
    "--zkconnect dc1-zookeeper:2181 --topic test-topic"
)

_DEMO_TEST: Final = "test_the_demo_of_the_article_works_command_by_command"
_TOOLS_TEST: Final = "test_the_vendors_tools_show_the_replica"
_NO_PROGRAM: Final = "not yet: the program is not here"
_MM2: Final = "bin/connect-mirror-maker.sh connect-mirror-maker.properties"
_MM1_TEST: Final = "test_sources_are_copied_into_topics_with_fewer_partitions"
MIRROR_MAKER_1: Final = (
    "bin/kafka-mirror-maker.sh --consumer.config source-config.properties --producer.config target-config.properties "
    '--whitelist ".*" --num.streams 4'
)

COMMANDS: Final = [
    Told(GEO, f"{_MM2} --clusters secondary", "", _NO_PROGRAM),
    Told(GEO, f"{_MM2} --clusters west-1 west-2", "", _NO_PROGRAM),
    Told(GEO, f"{_MM2} --clusters east-1 east-2", "", _NO_PROGRAM),
    Told(GEO, f"{_MM2} --clusters north-1 north-2", "", _NO_PROGRAM),
    Told(GEO, _MM2, "", _NO_PROGRAM),
    Told(GEO, f"{_MM2} \\\n--clusters us-west", "", _NO_PROGRAM),
    Told(GEO, "kill <MirrorMaker pid>", "", _NO_PROGRAM),
    Told(DEMO, CREATE, CREATE, _DEMO_TEST),
    Told(DEMO, BROKER_HEALTH, BROKER_HEALTH, _DEMO_TEST),
    Told(DEMO, WORKER, WORKER, _DEMO_TEST),
    Told(DEMO, DEPLOY, DEPLOY, _DEMO_TEST),
    Told(DEMO, WORKER_HEALTH, WORKER_HEALTH, _DEMO_TEST),
    Told(DEMO, CONSUME_BOTH, CONSUME_BOTH.replace("--whitelist", "--include"), _DEMO_TEST),
    Told(DEMO, CONSUME_TEST, CONSUME_TEST.replace("--whitelist", "--include"), _DEMO_TEST),
    Told(DEMO, PRODUCE, PRODUCE, _DEMO_TEST),
    Told(DEMO, "/etc/kafka/docker/run &", "", "starts the broker in Kafka's own image"),
    Told(
        DEMO,
        "apk update; apk upgrade; apk add --no-cache curl bash; apk cache clean",
        "",
        "builds the image of Connect",
    ),
    Told(DEMO, "docker compose up", "", "needs Docker; the other rows have the commands of its containers"),
    Told(DEMO, "wget --no-verbose --tries=1 --spider localhost:8080 || exit 1", "", "asks Kafka-UI for its health"),
    Told(VENDOR, "sudo vim /usr/lib/kafka/bin/mm2.properties", "", "an editor"),
    Told(VENDOR, "/usr/lib/kafka/bin/connect-mirror-maker.sh mm2.properties", "", _NO_PROGRAM),
    Told(VENDOR, LIST, LIST, _TOOLS_TEST),
    Told(VENDOR, CREATE_SOURCE, CREATE_SOURCE, _TOOLS_TEST),
    Told(VENDOR, PRODUCE_SOURCE, PRODUCE_SOURCE, _TOOLS_TEST),
    Told(VENDOR, CONSUME_REPLICA, CONSUME_REPLICA, _TOOLS_TEST),
    Told(INTRO, MIRROR_MAKER_1, MIRROR_MAKER_1, _MM1_TEST),
    Told(
        BEST,
        "bin/kafka-run-class.sh kafka.tools.MirrorMaker --consumer.config sourceCluster1Consumer.config "
        "--consumer.config sourceCluster2Consumer.config --num.streams 2 "
        '--producer.config targetClusterProducer.config --whitelist=".*"',
        "bin/kafka-mirror-maker.sh --consumer.config sourceCluster1Consumer.config "
        "--consumer.config sourceCluster2Consumer.config --num.streams 2 "
        '--producer.config targetClusterProducer.config --whitelist=".*"',
        _MM1_TEST,
    ),
    Told(
        BEST,
        OFFSET_CHECKER,
        "bin/kafka-consumer-groups.sh --bootstrap-server dc1-kafka:9092 --describe --group KafkaMirror",
        _TOOLS_TEST,
    ),
]
