"""Whose tasks may write: of a worker that leads or has a share. A worker hears of its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

HEARD: Final = """
import asyncio, sys
from mirror_connect.app.herder.interfaces import GroupAssignment
from mirror_connect.app.distributed import DistributedWorker
from mirror_connect.app.config.worker_config import load_worker_config

async def build():
    worker = DistributedWorker(load_worker_config(sys.argv[1]), lambda _: None).worker
    worker.herder.leadership._changed.clear()
    worker._membership._place = GroupAssignment(1, leader=True)
    worker._membership._lease.renew(worker._membership._clock() + 100, settled=True)
    worker._membership._report()
    print(worker.herder.leadership._changed.is_set())

asyncio.run(build())
"""
BUILD: Final = """
import asyncio, sys
from mirror_connect.app.herder.interfaces import GroupAssignment, GroupMember
from mirror_connect.app.distributed import DistributedWorker
from mirror_connect.app.config.worker_config import load_worker_config

async def build():
    worker = DistributedWorker(load_worker_config(sys.argv[1]), lambda _: None).worker
    members = (GroupMember("http://a:1", "a:1"),) if sys.argv[2] == "shares" else ()
    membership = worker._membership
    membership._place = GroupAssignment(1, leader=sys.argv[2] == "leads", workers=members)
    membership._lease.renew(membership._clock() + 100, settled=True)
    print(worker._supervisor.requests._lease())

asyncio.run(build())
"""
BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
PROPERTIES: Final = f"""
bootstrap.servers=127.0.0.1:1
group.id=lease
config.storage.topic=configs
offset.storage.topic=offsets
status.storage.topic=statuses
listeners=http://127.0.0.1:0
key.converter={BYTES}
value.converter={BYTES}
"""


# A leader of an earlier release names no members, and runs everything itself.
@pytest.mark.parametrize("standing", ["leads", "shares", "stands by"])
def test_only_a_worker_that_leads_or_has_a_share_gives_its_tasks_a_lease(standing: str, tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(PROPERTIES)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(file), standing], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (float(done.stdout) > 0) == (standing != "stands by")


def test_a_worker_hears_that_its_place_in_the_group_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text(PROPERTIES)
    done = subprocess.run(
        [sys.executable, "-c", HEARD, str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
