"""The commands of guides to MirrorMaker 1 work here, as written but for hosts and paths (background_commands.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.local import LocalCluster
from tests.brokers import committed
from tests.e2e import background_commands as told
from tests.e2e.identity_topics import produce
from tests.e2e.users_shell import Shell
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

# As the guides have them; some of their properties are of no consumer or producer, now as then.
SOURCE_FILE = """bootstrap.servers=source-cluster:9092
group.id=mirror-maker-group
groupid=dp-MirrorMaker-group
exclude.internal.topics=true
mirror.topics.whitelist=app_log
client.id=mirror_maker_consumer
auto.offset.reset=earliest
"""
TARGET_FILE = """bootstrap.servers=target-cluster:9092
acks=1
batch.size=100
client.id=mirror_maker_producer
max.in.flight.requests.per.connection=1
retries=2147483647
"""


class Case(NamedTuple):
    """A command, the files that it names with the target's behind the sources', and how often a record is copied."""

    command: str
    files: tuple[str, ...]
    times: int = 1


@pytest.mark.parametrize(
    "case",
    [
        # test_mirror_maker1.py starts Spark for the same, with other options.
        pytest.param(
            Case(told.MM1_INTRO, ("source-config.properties", "target-config.properties")),
            id="introduction",
            marks=pytest.mark.long,
        ),
        pytest.param(
            Case(
                told.MM1_BEST,
                ("sourceCluster1Consumer.config", "sourceCluster2Consumer.config", "targetClusterProducer.config"),
                times=2,
            ),
            id="two_sources",
            marks=pytest.mark.long,
        ),
        pytest.param(
            Case(told.MM1_OPTIONS, ("hdp1-consumer.properties", "hdp1-producer.properties")),
            id="options",
            marks=pytest.mark.long,
        ),
    ],
)
def test_mirror_maker_1_copies_as_old_guides_start_it(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    topic_name: Callable[[str], str],
    tmp_path: Path,
    case: Case,
) -> None:
    topic = topic_name("guided")
    source_cluster.create_topic(topic)
    produce(source_cluster, topic, [{"value": b"seen", "partition": 0}])
    places = {
        "source-cluster:9092": source_cluster.bootstrap_servers,
        "target-cluster:9092": target_cluster.bootstrap_servers,
        # The brokers are shared by many tests: all topics are those of this one.
        '".*"': f'"{topic}.*"',
        "my-topic": topic,
    }
    with Shell(tmp_path, places) as shell:
        for number, name in enumerate(case.files[:-1]):
            # Two sources are the same cluster here, read by two groups.
            shell.write(name, SOURCE_FILE.replace("group.id=mirror-maker-group", f"group.id={topic}-{number}"))
        shell.write(case.files[-1], TARGET_FILE)
        (row,) = [row for row in told.COMMANDS if row.command == case.command]
        mirror_maker = shell.start(row.today)
        mirror_maker.wait_copied(target_cluster, topic, case.times)
        mirror_maker.check_alive()
        assert mirror_maker.terminate() == 0
        wait_for_state(lambda: committed(source_cluster, f"{topic}-0", topic) == {0: 1}, "its offset is committed")
