"""`make soak`: the tests that kill, fence and hand over (marked `soak`), again and again, each round with a seed of its own.

Models go through other schedules in each round, and through many more than in `make test`.

Rounds go on after failures. Nothing is tried again here: a wait that ran out is counted apart. Each test is a line when it
ends, each round a file in build/soak, and at the end a table says of each test how often it passed, failed and ran out of
time, and with which seeds. The exit code is 1 if anything failed, else 0.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.gate import skips_fail
from tests.seeds import VARIABLE

ROOT: Final = Path(__file__).resolve().parents[1]
SOAK: Final = (
    "-p",
    "tests.gate",
    "-m",
    "soak or long",
    "--numprocesses=2",
    "--dist=loadfile",
    "--no-loadscope-reorder",
)
# Unless the environment has them already. The seed of a round is the models' as well.
MORE_SCHEDULES: Final = {"MODEL_EXAMPLES": "2000", "MODEL_SCHEDULES": "600"}
MODEL_VARIABLE: Final = "MODEL_SEED"
# Exit codes of pytest after which every test that was asked for has run.
RAN: Final = (0, 1)
LOOK_S: Final = 0.2
END_S: Final = 120.0


@dataclass
class Rate:
    """How one test ended, round by round; of what did not pass, the seeds."""

    passed: int = 0
    skipped: int = 0
    failed: list[int] = field(default_factory=list)
    waited: list[int] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """How often it ran."""
        return self.passed + self.skipped + len(self.failed) + len(self.waited)


class Soak:
    """All rounds, and what came of them."""

    def __init__(self, rounds: int, first_seed: int, arguments: Sequence[str], folder: Path) -> None:
        self.rates: dict[str, Rate] = {}
        self.broken: list[str] = []
        self._rounds = rounds
        self._first_seed = first_seed
        self._arguments = arguments
        self._folder = folder

    def run(self) -> None:
        """Every round; tells of each test as it ends."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, self._rounds + 1):
            self._round(number, self._first_seed + number - 1)

    def _round(self, number: int, seed: int) -> None:
        log, outcomes = self._folder / f"round-{number}.log", self._folder / f"round-{number}.jsonl"
        outcomes.write_text("")
        command = [sys.executable, "-m", "pytest", *SOAK, f"--outcomes={outcomes}", *self._arguments]
        began, ended, wrong = time.monotonic(), 0, 0
        with log.open("wb") as output:
            environment = {**MORE_SCHEDULES, **os.environ, VARIABLE: str(seed), MODEL_VARIABLE: str(seed)}
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
            try:
                for name, outcome, seconds, why in _ended(process, outcomes):
                    ended += 1
                    wrong += outcome in ("failed", "waited")
                    self._count(name, outcome, seed)
                    told = f"{outcome} in {seconds:.1f} s: {name}{why and f': {why}'}"
                    print(f"round {number} of {self._rounds}, seed {seed}: {told}", flush=True)
            finally:
                _end(process)
        # A file that can't be read fails no test.
        if process.returncode not in RAN or (process.returncode and not wrong):
            self.broken.append(
                f"round {number} was no whole round (pytest's exit code is {process.returncode}): see {log}"
            )
            print(self.broken[-1], flush=True)
        took = time.monotonic() - began
        print(f"round {number} of {self._rounds}: {ended} tests in {took:.0f} s; {self.summary()}", flush=True)

    def _count(self, name: str, outcome: str, seed: int) -> None:
        rate = self.rates.setdefault(name, Rate())
        if outcome == "failed":
            rate.failed.append(seed)
        elif outcome == "waited":
            rate.waited.append(seed)
        elif outcome == "skipped":
            rate.skipped += 1
        else:
            rate.passed += 1

    def summary(self) -> str:
        """All tests in one line."""
        rates = self.rates.values()
        runs = sum(rate.rounds for rate in rates)
        passed, skipped = sum(rate.passed for rate in rates), sum(rate.skipped for rate in rates)
        failed, waited = sum(len(rate.failed) for rate in rates), sum(len(rate.waited) for rate in rates)
        left_out = f", {skipped} skipped" if skipped else ""
        return (
            f"of {runs} runs of {len(rates)} tests {passed} passed, {failed} failed, {waited} ran out of time{left_out}"
        )

    def table(self) -> Iterator[str]:
        """A line for each test, those that failed first."""
        yield "passed failed  late    of  test"
        for name, rate in sorted(self.rates.items(), key=lambda each: (-len(each[1].failed), -len(each[1].waited))):
            yield f"{rate.passed:6} {len(rate.failed):6} {len(rate.waited):5} {rate.rounds:5}  {name}"
            for what, seeds in (("failed", rate.failed), ("late", rate.waited)):
                if seeds:
                    yield f"{'':26} {what} with {VARIABLE}={', '.join(map(str, seeds))}"

    @property
    def code(self) -> int:
        """The exit code."""
        bad = (
            self.broken
            or not self.rates
            or any(rate.failed or (rate.skipped and skips_fail()) for rate in self.rates.values())
        )
        return 1 if bad else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    # As Ctrl-C does: tests give back what they have. A terminal has sent it the signal already, once more does no harm.
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ended(process: subprocess.Popen[bytes], outcomes: Path) -> Iterator[tuple[str, str, float, str]]:
    """(test, outcome, seconds, the first line of why not) as the tests end."""
    with outcomes.open() as lines:
        while True:
            over = process.poll() is not None
            # Whole lines: pytest writes each at once.
            for line in lines:
                told = json.loads(line)
                yield told["test"], told["outcome"], told["seconds"], told["why"]
            if over:
                return
            time.sleep(LOOK_S)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how often every test runs")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the first round; each adds one")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "soak", help="where the rounds' output is kept")
    options, arguments = parser.parse_known_args()
    # What is started in the background is deaf to Ctrl-C, and so is all below it; told to end, it tells what it has.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    soak = Soak(options.rounds, options.seed, arguments, options.folder)
    print(f"{options.rounds} rounds from seed {options.seed} on; what tests say is in {options.folder}", flush=True)
    try:
        soak.run()
    except KeyboardInterrupt:
        soak.broken.append("interrupted")
    print("", *soak.table(), *soak.broken, soak.summary(), sep="\n", flush=True)
    return soak.code


if __name__ == "__main__":
    sys.exit(main())
