"""Points in time as texts for people have them: UTC, so that lines of several machines can be laid side by side."""

from __future__ import annotations

import time


def utc(seconds: float) -> str:
    """Seconds since 1970 as `2026-01-31 23:59:59 UTC`."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
