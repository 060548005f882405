"""A task's producer that stops itself at one step of its start: `python -m tests.fakes.zombie_process`.

Arguments: bootstrap servers, transactional id, seconds of lease from now on, and the step: `before` the request for a
producer id is made, or `behind` the look at the lease, with the request's bytes not yet sent. It prints the producer epoch
that it would write with; who runs it lets it go on with SIGCONT.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from mirror_connect.connectors.clock import boot_clock
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.copier_settings import ProducerSettings
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.protocol.codec import Writer
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class StoppingCluster(Cluster):
    async def send(self, node_id: int, request: Any, **more: Any) -> Any:
        if isinstance(request, InitProducerId):
            stop()
        return await super().send(node_id, request, **more)


def stop_behind_the_lease() -> None:
    encode = InitProducerId.encode

    def encode_and_stop(self: InitProducerId, version: int, writer: Writer) -> None:
        encode(self, version, writer)
        stop()

    InitProducerId.encode = encode_and_stop  # type: ignore[method-assign]


async def main(bootstrap: str, transactional_id: str, lease_s: float, step: str) -> None:
    kind = StoppingCluster if step == "before" else Cluster
    if step == "behind":
        stop_behind_the_lease()
    cluster = kind({"bootstrap.servers": bootstrap}, "zombie", kind="producer")
    await cluster.connect()
    until = boot_clock() + lease_s
    producer = BatchProducer(
        cluster,
        ProducerSettings(),
        transactional_id,
        lambda: boot_clock() < until,
        lambda line: print(line, flush=True),
    )
    await producer.start()
    print(f"epoch {producer._sender.producer.epoch}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]))
