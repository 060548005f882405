"""What happened when in a start, out of the logs of both sides: seconds since the process was started.

Lines have the time of day, in two forms: `12:34:56.789 INFO text (Class)` (deploy/local/log4j2.properties) and
`[2026-01-02 12:34:56,789] INFO text (logger)`. This product tells all of its steps with MIRROR_CONNECT_LOG_LEVEL=DEBUG only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

DAY_S: Final = 86_400.0
_LINE: Final = re.compile(
    r"(?:\[\d{4}-\d\d-\d\d )?(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)[.,](?P<millis>\d{3})\]? [A-Z]+ (?P<text>.*)"
)
_PLACE: Final = re.compile(r" \([\w.$:]+\)$")
# Of this product, then of Kafka's Connect.
_MILESTONE: Final = re.compile(
    r"Start: |REST listens|Spark is ready|This worker leads|Connector \S+ is RUNNING|Task \S+ (is RUNNING|gets its source)"
    r"|Task \S+: a process has asked"
    r"|Kafka Connect worker initializing|Kafka cluster ID|REST server listening|Successfully joined group"
    r"|Starting connectors|Finished starting connectors|Created connector|Executing source task"
    r"|Source task finished initialization"
)


def timeline(log: str, began: float) -> Iterator[tuple[float, str]]:
    """Seconds and text of each milestone. `began`: the time of day of the process's start, in seconds."""
    for line in log.splitlines():
        found = _LINE.match(line)
        if found is None or not (milestone := _MILESTONE.search(found["text"])):
            continue
        of_day = int(found["hour"]) * 3600 + int(found["minute"]) * 60 + int(found["second"])
        text = found["text"][milestone.start() :].removeprefix("Start: ")
        yield (of_day + int(found["millis"]) / 1000 - began) % DAY_S, _PLACE.sub("", text)
