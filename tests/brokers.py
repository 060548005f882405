"""What a broker is told that several tests share."""

from __future__ import annotations

from typing import Final

# A broker that lasts for the session and is never killed has nobody to tell in a hurry that it is there: half of the
# processor time that one takes while nothing happens.
UNHURRIED: Final = {
    "broker.heartbeat.interval.ms": "5000",
    "broker.session.timeout.ms": "30000",
    "metadata.max.idle.interval.ms": "0",
}
