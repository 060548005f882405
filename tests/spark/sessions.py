"""Spark sessions in pytest's own process."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.spark_jobs.session import open_session

ENDS_S = 30.0


@contextlib.contextmanager
def running_session(settings: Mapping[str, str], scratch: Path) -> Iterator[Any]:
    """A session that writes below `scratch`. Its JVM has ended behind it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(scratch))
        session = open_session(dict(settings))
        gateway = session.sparkContext._gateway
        try:
            yield session
        finally:
            session.stop()
            with contextlib.suppress(OSError):
                gateway.proc.stdin.close()
            gateway.proc.wait(ENDS_S)
