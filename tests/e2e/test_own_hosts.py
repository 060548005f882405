"""Executors with addresses, file systems and environments of their own: nothing of a task relies on one machine.

The code reaches them as an archive (`mirror-connect spark-archive`), specs with key stores and passwords over the encrypted
channel. The source asks for a client certificate, the target for a password.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.local import Listener, LocalCluster
from deploy.local.spark_cluster import SparkCluster
from deploy.local.spark_executor import Executor
from tests.brokers import started
from tests.e2e.executors import (
    PROPERTIES,
    at_work,
    check_turns,
    once_config,
    wait_all,
    wait_busy,
    wait_executors,
    wait_returned,
)
from tests.e2e.numbered import Writer
from tests.e2e.own_hosts import SEEN_AS, OwnHosts, why_not
from tests.e2e.product import Product
from tests.e2e.progress import Progress
from tests.e2e.stores_on_disk import needles, traces
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

PARTITIONS: Final = 4
TASKS: Final = 4
SLOTS: Final = 4
RATE: Final = 1_000
# The longest lease of a task on a cluster, and what a takeover may take beyond it.
MOVES_S: Final = 36.0
CUT_S: Final = 45.0
USER: Final = "mirror"
PASSWORD: Final = "of-own-hosts-alone"
# Of a host's root: this machine's, read only, and what is in no file.
NOT_ITS_DISK: Final = ("usr", "etc", "opt/spark", "proc", "dev")


@pytest.fixture(scope="module")
def hosts() -> Iterator[OwnHosts]:
    if problem := why_not():
        pytest.skip(f"this machine has no namespaces for tests: {problem}")
    links = links_of_this_machine()
    with tempfile.TemporaryDirectory(prefix="own-hosts-") as directory:
        with OwnHosts(Path(directory), 2) as made:
            yield made
        assert directory not in Path("/proc/self/mountinfo").read_text()
    assert links_of_this_machine() == links


def links_of_this_machine() -> set[str]:
    return {each.name for each in Path("/sys/class/net").iterdir()}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `mirror-connect spark-archive` makes of this environment."""
    path = tmp_path_factory.mktemp("archive") / "environment.tar.gz"
    command = [sys.executable, "-m", "mirror_connect.cli", "spark-archive", "--output", str(path)]
    subprocess.run(command, check=True, timeout=600)
    return path


@pytest.fixture(scope="module")
def clusters(hosts: OwnHosts) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two clusters at this machine's address in the network of the hosts, with TLS."""
    source = LocalCluster("own-source", host=hosts.address, listeners=[Listener.SSL], tls_client_auth="required")
    target = LocalCluster("own-target", host=hosts.address, listeners=[Listener.SASL_SSL], users={USER: PASSWORD})
    with started(source, target):
        yield source, target


@pytest.fixture(scope="module")
def spark(hosts: OwnHosts) -> Iterator[SparkCluster]:
    """A Spark worker on each host, and its master here."""
    with SparkCluster(workers=0, host=hosts.address) as cluster:
        for number in range(2):
            cluster.add_worker(SLOTS, hosts.place(number))
        yield cluster.wait_workers(2)


@pytest.fixture(scope="module")
def product(spark: SparkCluster, archive: Path, clusters: tuple[LocalCluster, LocalCluster]) -> Iterator[Product]:
    properties = {**PROPERTIES, "spark.archives": f"{archive}#environment"}
    with Product(clusters[1], group="own-hosts", properties=properties, spark=spark) as worker:
        wait_executors(worker, 2)
        yield worker


def begin(product: Product, clusters: tuple[LocalCluster, LocalCluster], topic: str) -> list[tuple[str, int]]:
    """A connector of the topic's name copies it; returns the partitions of the copy."""
    source, target = clusters
    source.create_topic(topic, PARTITIONS)
    product.put(topic, once_config(source, target, topic, tasks_max=str(TASKS)))
    product.wait_running(topic, TASKS)
    return [(f"A.{topic}", partition) for partition in range(PARTITIONS)]


def test_the_whole_path_works(
    product: Product,
    spark: SparkCluster,
    clusters: tuple[LocalCluster, LocalCluster],
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = clusters
    copies = begin(product, clusters, topic := "to-own-hosts")
    with Progress(target, copies) as progress:
        with Writer(source, topic, PARTITIONS, RATE) as writer:
            product.wait_going_on(topic, target, f"A.{topic}")
            executors = wait_busy(product, target, 2)
            for executor in executors:
                assert_nothing_of_this_machine(min(at_work(executor, target)))
                assert_no_store_on_its_disk(spark, executor, source, target)
            when = time.monotonic()
            executors[0].kill()
            product.wait_going_on(topic, target, f"A.{topic}")
        wait_all(writer, target, f"A.{topic}")
    still = max(progress.longest_pause(each, when) for each in copies)
    with capsys.disabled():
        print(f" [stood still for {still:.1f} s at most]", end="")
    assert still <= MOVES_S
    product.delete(topic)
    for executor in wait_executors(product, 2):
        assert_no_store_on_its_disk(spark, executor, source, target)


def test_tasks_of_a_host_whose_network_is_cut_move_and_write_nothing_when_it_is_back(
    product: Product,
    spark: SparkCluster,
    hosts: OwnHosts,
    clusters: tuple[LocalCluster, LocalCluster],
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = clusters
    wait_executors(product, 2)
    copies = begin(product, clusters, topic := "to-hosts-cut-off")
    with Progress(target, copies) as progress:
        with Writer(source, topic, PARTITIONS, RATE) as writer:
            product.wait_going_on(topic, target, f"A.{topic}")
            lost = wait_busy(product, target, 2)[0]
            theirs = at_work(lost, target)
            host = spark.workers.index(spark.worker_of(lost))
            when = time.monotonic()
            hosts.cut(host)
            wait_for(
                lambda: all(progress.ends[each] > progress.at(each, when + 2.0) for each in copies),
                "every partition goes on",
                MOVES_S,
                arrived=lambda: progress.total,
            )
            time.sleep(max(0.0, when + CUT_S - time.monotonic()))
            hosts.mend(host)
            # What it had under way before the cut arrives now.
            time.sleep(10)
            wait_returned(theirs, target)
            product.wait_going_on(topic, target, f"A.{topic}")
        wait_all(writer, target, f"A.{topic}")
    still = max(progress.longest_pause(each, when) for each in copies)
    with capsys.disabled():
        print(f" [stood still for {still:.1f} s at most]", end="")
    assert still <= MOVES_S
    check_turns(target, f"A.{topic}", PARTITIONS)
    assert product.process.poll() is None
    product.delete(topic)


def assert_nothing_of_this_machine(pid: int) -> None:
    """A process has another root, another network and another Python than this one."""
    for kind in ("net", "mnt"):
        assert Path(f"/proc/{pid}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()
    assert not Path(f"/proc/{pid}/root{Path(__file__).parent}").exists()
    assert not Path(f"/proc/{pid}/root{sys.prefix}").exists()
    # Unpacked there by Spark.
    assert f"{SEEN_AS}/" in str(Path(f"/proc/{pid}/exe").readlink())


def assert_no_store_on_its_disk(
    spark: SparkCluster, executor: Executor, source: LocalCluster, target: LocalCluster
) -> None:
    """Neither the disk of an executor's host has anything of stores and logins, nor can it see their files."""
    root = Path(f"/proc/{spark.worker_of(executor).pid}/root")
    wanted = [PASSWORD.encode()]
    for cluster in (source, target):
        assert cluster.tls is not None
        theirs = needles(cluster.tls)
        wanted += theirs
        assert traces(cluster.directory / "tls", theirs), "what is looked for is found where it is"
        assert not Path(f"{root}{cluster.directory}").exists()
    assert traces(root, wanted, NOT_ITS_DISK) == []
