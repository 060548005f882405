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

MM2: Final = "bin/connect-mirror-maker.sh connect-mirror-maker.properties"
MM2_NEAR: Final = f"{MM2} --clusters secondary"
MM2_US_WEST: Final = f"{MM2} \\\n--clusters us-west"
MM2_LOCATIONS: Final = [f"{MM2} --clusters {each}-1 {each}-2" for each in ("west", "east", "north")]
MM2_VENDOR: Final = "/usr/lib/kafka/bin/connect-mirror-maker.sh mm2.properties"
MM1_INTRO: Final = (
    "bin/kafka-mirror-maker.sh --consumer.config source-config.properties --producer.config target-config.properties "
    '--whitelist ".*" --num.streams 4'
)
MM1_BEST: Final = (
    "bin/kafka-run-class.sh kafka.tools.MirrorMaker --consumer.config sourceCluster1Consumer.config "
    "--consumer.config sourceCluster2Consumer.config --num.streams 2 "
    '--producer.config targetClusterProducer.config --whitelist=".*"'
)
# The examples of its table of options, in one command.
MM1_OPTIONS: Final = (
    "bin/kafka-mirror-maker.sh --consumer.config hdp1-consumer.properties --producer.config hdp1-producer.properties "
    "--whitelist my-topic --num.streams 4 --num.producers 2 --queue.size 2000 --abort.on.send.fail"
)
KILL: Final = "kill <MirrorMaker pid>"
OFFSET_CHECKER: Final = (
    "bin/kafka-run-class.sh kafka.tools.ConsumerOffsetChecker --group KafkaMirror "
    "--zkconnect dc1-zookeeper:2181 --topic test-topic"
)

_DEMO_TEST: Final = "test_the_demo_of_the_article_works_command_by_command"
_MM2_TEST: Final = "test_a_dedicated_process_copies_until_it_is_killed"
_MM1_TEST: Final = "test_mirror_maker_1_copies_as_old_guides_start_it"
_TOOLS_TEST: Final = "test_the_vendors_tools_show_the_replica"

COMMANDS: Final = [
    Told(GEO, MM2, MM2, _MM2_TEST),
    Told(GEO, MM2_NEAR, MM2_NEAR, _MM2_TEST),
    Told(GEO, MM2_US_WEST, MM2_US_WEST, _MM2_TEST),
    *(Told(GEO, each, each, _MM2_TEST) for each in MM2_LOCATIONS),
    Told(GEO, KILL, KILL, _MM2_TEST),
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
    Told(VENDOR, MM2_VENDOR, MM2_VENDOR, _TOOLS_TEST),
    Told(VENDOR, LIST, LIST, _TOOLS_TEST),
    Told(VENDOR, CREATE_SOURCE, CREATE_SOURCE, _TOOLS_TEST),
    Told(VENDOR, PRODUCE_SOURCE, PRODUCE_SOURCE, _TOOLS_TEST),
    Told(VENDOR, CONSUME_REPLICA, CONSUME_REPLICA, _TOOLS_TEST),
    Told(INTRO, MM1_INTRO, MM1_INTRO, _MM1_TEST),
    Told(
        BEST,
        MM1_BEST,
        MM1_BEST.replace("kafka-run-class.sh kafka.tools.MirrorMaker", "kafka-mirror-maker.sh"),
        _MM1_TEST,
    ),
    Told(BEST, MM1_OPTIONS, MM1_OPTIONS, _MM1_TEST),
    Told(
        BEST,
        OFFSET_CHECKER,
        "bin/kafka-consumer-groups.sh --bootstrap-server dc1-kafka:9092 --describe --group KafkaMirror",
        _TOOLS_TEST,
    ),
]
