"""Copies of which no start counts: a quota of the source's broker holds all tasks back until each partition has a record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.rig import Ends, Rig
from benchmarks.sides import Side, SideError, connector_config
from benchmarks.throughput import REST_S

# Of each task while others start, and of each of its partitions: some batches in the time that starts take. A broker with a
# quota of less than a batch gives none at all.
HELD_BYTES_PER_SECOND: Final = 300_000
HELD_OF_PARTITION: Final = 20_000
# A broker tells a client to wait for the length of its samples of a quota at most. The rig's brokers need this.
QUOTA_SAMPLES: Final = {"quota.window.num": "2"}
BEGIN_S: Final = 180.0
SETTLE_S: Final = 3.0
# More records are left than are copied, as tasks are not equally fast: one that has reached the end would cost less.
COPIED: Final = 0.8


class HeldCopies:
    """The copies that one side makes in turn. `warm`: the topic that it copies meanwhile, under an alias of that name."""

    def __init__(self, rig: Rig, side: Side, warm: str) -> None:
        self._rig = rig
        self._side = side
        self._warm = warm
        self._copies = 0

    @contextmanager
    def copying(self, topic: str, partitions: int, tasks: int) -> Iterator[str]:
        """The remote topic, when each task has copied something of each of its partitions and has run free for a moment.

        It is a new one, and deleted afterwards.
        """
        self._copies += 1
        alias = f"{self._warm}-{self._copies}"
        remote = f"{alias}.{topic}"
        self._rig.limit_consumers(max(HELD_BYTES_PER_SECOND, HELD_OF_PARTITION * partitions / tasks))
        self._side.put("copy", connector_config(self._rig.source, self._rig.target, alias, topic, tasks))
        try:
            self._wait_all_begun(remote, partitions, tasks)
            self._rig.limit_consumers(None)
            time.sleep(SETTLE_S)
            yield remote
        finally:
            self._rig.limit_consumers(None)
            self._side.put("copy", connector_config(self._rig.source, self._rig.target, self._warm, self._warm))
            self._side.wait_running("copy")
            time.sleep(REST_S)
            self._rig.target.delete_topic(remote)

    def _wait_all_begun(self, remote: str, partitions: int, tasks: int) -> None:
        self._side.wait_running("copy", tasks)
        until = time.monotonic() + BEGIN_S
        with Ends(self._rig.target, remote, partitions) as ends:
            while (begun := ends.begun()) < partitions:
                self._side.check_alive()
                if time.monotonic() > until:
                    raise SideError(f"{remote}: {begun} of {partitions} partitions have a record after {BEGIN_S:g} s")
                time.sleep(0.1)
