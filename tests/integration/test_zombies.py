"""A task that was suspended at its start and wakes when another has its place, as real processes on a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import psutil
import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.produce_outcome import FencedError
from tests.waiting import state_reached

pytestmark = [pytest.mark.brokers, pytest.mark.soak]

LEASE_S = 3.0
PATIENCE_S = 180.0
# For what must not happen: far longer than a request to a broker on this machine takes.
LOOK_S = 2.0


@contextmanager
def zombie(cluster: LocalCluster, transactional_id: str, step: str) -> Iterator[psutil.Popen]:
    """A process that has stopped itself at `step`; ended with the block."""
    arguments = [cluster.bootstrap_servers, transactional_id, str(LEASE_S), step]
    process = psutil.Popen(
        [sys.executable, "-m", "tests.fakes.zombie_process", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def until_stopped(process: psutil.Popen) -> None:
    await state_reached(lambda: process.status() == psutil.STATUS_STOPPED, "the process has stopped itself", PATIENCE_S)


async def woken(process: psutil.Popen) -> list[str]:
    """What the process says in the time after it was let go on."""
    os.set_blocking(process.stdout.fileno(), False)
    process.send_signal(signal.SIGCONT)
    await asyncio.sleep(LOOK_S)
    with contextlib.suppress(TypeError):  # nothing there to be read
        return list(process.stdout)
    return []


async def until_epoch(cluster: LocalCluster, transactional_id: str, epoch: int) -> None:
    """Waits until the coordinator has given this epoch to somebody: to look at it takes none."""
    connect = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}"]
    arguments = [*connect, "describe", "--transactional-id", transactional_id]

    def given() -> bool:
        told = cluster.run_tool("org.apache.kafka.tools.TransactionsCommand", arguments)
        names, values = (line.split() for line in told.splitlines()[-2:])
        return int(values[names.index("ProducerEpoch")]) >= epoch

    await state_reached(given, f"{transactional_id} has the epoch {epoch}", PATIENCE_S, in_thread=True)


@asynccontextmanager
async def rightful(cluster: LocalCluster, transactional_id: str) -> AsyncIterator[BatchProducer]:
    connection = Cluster({"bootstrap.servers": cluster.bootstrap_servers}, "rightful", kind="producer")
    await connection.connect()
    producer = BatchProducer(connection, ProducerSettings(), transactional_id, lambda: True, Problems(print))
    try:
        await producer.start()
        yield producer
    finally:
        await producer.close()
        await connection.close()


async def test_a_task_suspended_in_front_of_its_request_for_an_epoch_fences_nobody(one_broker: LocalCluster) -> None:
    name = f"zombie-{uuid.uuid4().hex[:8]}"
    with zombie(one_broker, name, "before") as process:
        await until_stopped(process)
        await asyncio.sleep(LEASE_S)
        async with rightful(one_broker, name) as producer:
            before = producer._sender.producer
            assert await woken(process) == []
            # Were there a newer epoch, the coordinator would answer that this producer is fenced.
            assert (await producer._identity.take(before)).epoch == before.epoch + 1


async def test_a_task_suspended_with_its_request_under_way_does_not_use_the_epoch(one_broker: LocalCluster) -> None:
    name = f"zombie-{uuid.uuid4().hex[:8]}"
    with zombie(one_broker, name, "behind") as process:
        await until_stopped(process)
        await asyncio.sleep(LEASE_S)
        async with rightful(one_broker, name) as producer:
            before = producer._sender.producer
            assert await woken(process) == []
            await until_epoch(one_broker, name, before.epoch + 1)
            # Nothing could keep the request back: the worker starts the rightful task anew, which has the newest epoch.
            with pytest.raises(FencedError):
                await producer._identity.take(before)
            assert (await producer._identity.take()).epoch == before.epoch + 2
