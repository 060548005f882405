"""What may happen to a worker of a group. Each strikes, puts everything back, and returns the worker that it has struck."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Mapping
from typing import Final

import psutil

from mirror_connect.app.group.membership import Membership
from mirror_connect.app.herder.interfaces import Claims, WantedWork
from tests.e2e.product import DAEMON, DRIVER, JVM, TASK, WORKER, Product
from tests.e2e.sharing import GROUP, SESSION_S, Sharing
from tests.waiting import wait_for_state

SUSPENDED_S: Final = 60.0
SPARK_SUSPENDED_S: Final = 40.0
GUESTS: Final = 20
GUEST_S: Final = 1.5


def leader_killed(sharing: Sharing) -> Product:
    """Kills the leader, waits until the others run all, and starts it again."""
    return _killed(sharing, sharing.leader())


def follower_killed(sharing: Sharing) -> Product:
    """The same with a worker that does not lead."""
    return _killed(sharing, sharing.follower())


def spark_killed(sharing: Sharing) -> Product:
    """Kills all processes of a follower's Spark application."""
    worker = sharing.follower()
    worker.kill(DRIVER, JVM, DAEMON, TASK)
    wait_for_state(
        lambda: any(state != "RUNNING" for state, _ in sharing.statuses(worker).values()), "its tasks do not run", 60
    )
    return worker


def leader_suspended(sharing: Sharing) -> Product:
    """All processes of the leader stand still for a minute. Meanwhile the others run all."""
    leader, began = sharing.leader(), time.monotonic()
    stopped = leader.signal(signal.SIGSTOP)
    try:
        _wait_without(sharing, leader)
        time.sleep(max(0.0, began + SUSPENDED_S - time.monotonic()))
    finally:
        for process in stopped:
            process.send_signal(signal.SIGCONT)
    return leader


def leaders_worker_suspended(sharing: Sharing) -> Product:
    """Only its worker's process does, and its tasks go on by themselves."""
    leader, began = sharing.leader(), time.monotonic()
    (stopped,) = leader.signal(signal.SIGSTOP, WORKER)
    try:
        _wait_without(sharing, leader)
        time.sleep(max(0.0, began + SUSPENDED_S - time.monotonic()))
    finally:
        stopped.send_signal(signal.SIGCONT)
    return leader


def spark_suspended(sharing: Sharing) -> Product:
    """All processes of a follower's Spark application stand still, for longer than their worker waits for them."""
    worker = sharing.follower()
    stopped = worker.signal(signal.SIGSTOP, DRIVER, JVM, DAEMON, TASK)
    try:
        time.sleep(SPARK_SUSPENDED_S)
    finally:
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):  # its worker has killed it
                process.send_signal(signal.SIGCONT)
    return worker


def others_come_and_go(sharing: Sharing) -> Product:
    """Twenty members join within a minute, take their share, run nothing of it, and leave."""
    asyncio.run(_come_and_go(sharing.target.client_properties()))
    return sharing.leader()


async def _come_and_go(client: Mapping[str, str]) -> None:
    for number in range(GUESTS):
        guest = Membership.of(
            client,
            GROUP,
            f"http://127.0.0.1:{number + 1}",
            session_timeout_ms=int(SESSION_S * 1000),
            heartbeat_interval_ms=500,
            rebalance_timeout_ms=60_000,
        )
        guest.share(_Nothing(guest))
        await guest.join()
        await asyncio.sleep(GUEST_S)
        await guest.leave()


class _Nothing:
    """What a guest tells the group: it knows no config, and claims what it has been assigned."""

    def __init__(self, guest: Membership) -> None:
        self._guest = guest

    def wanted(self) -> WantedWork:
        return WantedWork({}, -1)

    def claims(self) -> Claims:
        return Claims(self._guest.assignment.connectors, self._guest.assignment.tasks, {})


def cut_off(sharing: Sharing) -> Product:
    """The last worker gets through to no broker until the others run all. What it has sent arrives after that."""
    worker = sharing.workers[-1]
    try:
        for link in sharing.links:
            link.is_cut = True
        _wait_without(sharing, worker)
    finally:
        for link in sharing.links:
            link.is_cut = False
    return worker


def _killed(sharing: Sharing, worker: Product) -> Product:
    worker.kill(WORKER)
    _wait_without(sharing, worker)
    worker.launch()
    return worker


def _wait_without(sharing: Sharing, worker: Product) -> None:
    sharing.wait_shared([each for each in sharing.workers if each is not worker], sharing.plan.patience_s)
