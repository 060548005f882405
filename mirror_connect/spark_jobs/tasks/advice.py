"""What a user is told to do with a task: only what the program that runs it can do.

Dedicated mode has no REST interface that changes something, and MirrorMaker 1 has none at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.task_protocol import CONNECT, DEDICATED, MIRROR_MAKER_1

# Each by TaskSpec.program.
RESTART: Final[Mapping[str, str]] = {
    CONNECT: "restart the task",
    DEDICATED: "restart the process",
    MIRROR_MAKER_1: "wait for 30 s until the task is started again",
}
SET_OFFSETS: Final[Mapping[str, str]] = {
    CONNECT: "stop the connector and set its source offsets by REST",
    DEDICATED: "end the process and set the flow's source offsets by a worker with its group (docs/dedicated.md)",
    MIRROR_MAKER_1: "end the process and set the offsets of its group by kafka-consumer-groups.sh --reset-offsets",
}
