"""The two clusters of a comparison by their roles, and the special timestamps of ListOffsets."""

from __future__ import annotations

from typing import Final, Literal

ClusterRole = Literal["source", "target"]

# What ListOffsets takes instead of a timestamp (Kafka's protocol guide).
EARLIEST: Final = -2
LATEST: Final = -1
