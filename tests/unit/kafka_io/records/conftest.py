"""What is compiled is optional: tests of what it does run with it, where it is, and without."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.records import compiled

WAYS = ["python"] if compiled.functions is None else ["compiled", "python"]


@pytest.fixture(params=WAYS)
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(compiled, "functions", None)
