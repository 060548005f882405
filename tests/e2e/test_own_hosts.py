"""Executors with addresses, file systems and environments of their own: nothing of a task relies on one machine.

The code reaches them as an archive (`mirror-connect spark-archive`), specs and secrets over the encrypted channel.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from deploy.local import Listener, LocalCluster
from deploy.local.spark_cluster import SparkCluster
from tests.brokers import started
from tests.e2e.executors import PROPERTIES, once_config, wait_all
from tests.e2e.numbered import Writer
from tests.e2e.own_hosts import OwnHosts, why_not
from tests.e2e.product import Product
from tests.e2e.progress import Progress

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

TOPIC: Final = "to-own-hosts"
COPY: Final = f"A.{TOPIC}"
PARTITIONS: Final = 4
TASKS: Final = 4
RATE: Final = 1_000
# A lease, and what a takeover may take beyond it.
MOVES_S: Final = 36.0
USER: Final = "mirror"
PASSWORD: Final = "of-own-hosts-alone"


@pytest.fixture(scope="module")
def hosts() -> Iterator[OwnHosts]:
    if problem := why_not():
        pytest.skip(f"this machine has no namespaces for tests: {problem}")
    with tempfile.TemporaryDirectory(prefix="own-hosts-") as directory, OwnHosts(Path(directory), 2) as made:
        yield made


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `mirror-connect spark-archive` makes of this environment."""
    path = tmp_path_factory.mktemp("archive") / "environment.tar.gz"
    command = [sys.executable, "-m", "mirror_connect.cli", "spark-archive", "--output", str(path)]
    subprocess.run(command, check=True, timeout=300)
    return path


@pytest.fixture(scope="module")
def clusters(hosts: OwnHosts) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two clusters at this machine's address in the network of the hosts, with TLS and passwords."""
    made = [
        LocalCluster(f"own-{name}", host=hosts.address, listeners=[Listener.SASL_SSL], users={USER: PASSWORD})
        for name in ("source", "target")
    ]
    with started(*made) as (source, target):
        yield source, target


@pytest.fixture(scope="module")
def product(hosts: OwnHosts, archive: Path, clusters: tuple[LocalCluster, LocalCluster]) -> Iterator[Product]:
    with ExitStack() as stack:
        spark = stack.enter_context(SparkCluster(workers=0, host=hosts.address))
        for number in range(2):
            spark.add_worker(4, hosts.place(number))
        spark.wait_workers(2)
        properties = {
            **PROPERTIES,
            **spark.properties,
            "spark.archives": f"{archive}#environment",
        }
        yield stack.enter_context(Product(clusters[1], group="own-hosts", properties=properties, spark=spark))


def test_the_whole_path_works(
    product: Product, hosts: OwnHosts, clusters: tuple[LocalCluster, LocalCluster], capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = clusters
    source.create_topic(TOPIC, PARTITIONS)
    product.put("to-own-hosts", once_config(source, target, TOPIC, tasks_max=str(TASKS)))
    product.wait_running("to-own-hosts", TASKS)
    copies = [(COPY, partition) for partition in range(PARTITIONS)]
    with Progress(target, copies) as progress:
        with Writer(source, TOPIC, PARTITIONS, RATE) as writer:
            product.wait_going_on("to-own-hosts", target, COPY)
            executors = product.executors()
            assert len(executors) == 2
            for executor in executors:
                sees_nothing_of_this_machine(executor.tasks()[0].pid)
            when = time.monotonic()
            executors[0].kill()
            product.wait_going_on("to-own-hosts", target, COPY)
        wait_all(writer, target, COPY)
    still = max(progress.longest_pause(each, when) for each in copies)
    with capsys.disabled():
        print(f" [stood still for {still:.1f} s at most]", end="")
    assert still <= MOVES_S


def sees_nothing_of_this_machine(pid: int) -> None:
    """A process has another root, another network and another Python than this one."""
    for kind in ("net", "mnt"):
        assert Path(f"/proc/{pid}/ns/{kind}").readlink() != Path(f"/proc/self/ns/{kind}").readlink()
    assert not Path(f"/proc/{pid}/root{Path(__file__).parent}").exists()
    assert not Path(f"/proc/{pid}/root{sys.prefix}").exists()
    program = Path(f"/proc/{pid}/exe").readlink()
    assert not program.is_relative_to(sys.base_prefix)
    assert not program.is_relative_to("/usr")
