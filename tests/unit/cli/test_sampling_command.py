"""Sampling ends with its time or a signal. Then it prints the report and returns the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from mirror_connect.cli import sampling_command
from mirror_connect.cli.sampling_command import verify_samples
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.sampling_report import NOT_COMPARED, SamplingReport


class Verifier:
    """Stands for SamplingVerifier: sends this process a signal, or raises, and else runs for ever."""

    number: int | None = None
    error: Exception | None = None

    def __init__(self, *_: object) -> None:
        self.report = SamplingReport("link", datetime(2026, 11, 22, tzinfo=UTC), 7, whole=False)

    async def run(self) -> None:
        if self.number is not None:
            os.kill(os.getpid(), self.number)
        if self.error is not None:
            raise self.error
        await asyncio.Event().wait()


@pytest.fixture(autouse=True)
def verifier(monkeypatch: pytest.MonkeyPatch) -> type[Verifier]:
    class Own(Verifier): ...

    monkeypatch.setattr(sampling_command, "SamplingVerifier", Own)
    return Own


async def ended(seconds: float | None, *, as_json: bool = True) -> int:
    nothing: Any = None
    return await asyncio.wait_for(verify_samples(nothing, nothing, nothing, seconds=seconds, as_json=as_json), 30)


async def test_it_ends_when_its_time_is_over(capfd: pytest.CaptureFixture[str]) -> None:
    assert await ended(0.01) == NOT_COMPARED
    last = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert "not compared" in json.dumps(last)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_and_the_report_is_shown(
    number: int, verifier: type[Verifier], capfd: pytest.CaptureFixture[str]
) -> None:
    verifier.number = number
    assert await ended(None) == NOT_COMPARED
    assert capfd.readouterr().out != ""


async def test_its_errors_are_raised_and_signals_are_given_back(verifier: type[Verifier]) -> None:
    verifier.error = CannotCompareError("no link")
    with pytest.raises(CannotCompareError, match="no link"):
        await ended(None)
    assert not asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
