"""`python -m benchmarks.against CHECKOUT`: records per CPU second of this checkout and of another one, in one run.

`--put`: the seconds from a PUT to the first record instead.

The other checkout is set up, too (`make setup`). Both copy the same topic between the same brokers at the same time, so
that whatever else the machine does affects both. `--in-turns`: one after the other. Nothing is stored.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import startup, throughput
from benchmarks.console import Console
from benchmarks.plan import FULL, FULL_PROFILES, PROFILES, QUICK
from benchmarks.provenance import tree
from benchmarks.sides import BEFORE, LABELS, OURS
from deploy.demo.worker import ROOT
from deploy.local import LocalError

# The ratio of each round shows how much to believe.
ROUNDS = 10
COPY_S = 60.0
PUTS = 12


def main(arguments: Sequence[str] | None = None) -> int:
    """0: everything was measured, whatever the figures say; 1: something did not work; 130: Ctrl-C."""
    options = _parser().parse_args(arguments)
    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    durations = QUICK if options.quick else replace(FULL, rounds=ROUNDS, copy_product=COPY_S)
    rows = []
    try:
        if options.put:
            return _compare_puts(3 if options.quick else PUTS, options.checkout, console)
        for profile in PROFILES:
            if profile.name in (options.profile or FULL_PROFILES):
                figures = throughput.measure(
                    profile, durations, console, (BEFORE, OURS), options.checkout, at_once=not options.in_turns
                )
                before, ours = (each["by_round"] for each in figures)
                ratios = [mine / other for mine, other in zip(ours, before, strict=True)]
                rows.append(
                    [
                        profile.label,
                        *(f"{statistics.median(each):,.0f}" for each in (before, ours)),
                        f"{statistics.median(ratios):.3f}",
                        f"{min(ratios):.3f} to {max(ratios):.3f}",
                    ]
                )
    except KeyboardInterrupt:
        return 130
    except (LocalError, RuntimeError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        return 1
    print(f"\nRecords per CPU second, medians of {durations.rounds} rounds.")
    print(f"There: {_commit(options.checkout)}; here: {_commit(ROOT)}")
    console.table(["Topic", "there", "here", "here / there", "of single rounds"], rows)
    return 0


def _compare_puts(rounds: int, checkout: Path, console: Console) -> int:
    times = startup.puts(rounds, (BEFORE, OURS), checkout)
    rows = [
        [LABELS[name], f"{statistics.median(each):.2f}", f"{min(each):.2f} to {max(each):.2f}"]
        for name, each in times.items()
    ]
    ratio = statistics.median(times[OURS]) / statistics.median(times[BEFORE])
    print(f"\nSeconds from a PUT to the first record, {rounds} times each. Here / there: {ratio:.3f}")
    print(f"There: {_commit(checkout)}; here: {_commit(ROOT)}")
    console.table(["", "median", "from, to"], rows)
    return 0


def _commit(checkout: Path) -> str:
    found = tree(checkout)
    return found.commit[:10] + (" with changes" if found.dirty else "")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__.split("\n", 1)[0])
    parser.add_argument("checkout", type=lambda text: Path(text).resolve(), help="the other checkout, set up")
    parser.add_argument("--quick", action="store_true", help="short: to see that it works")
    parser.add_argument("--in-turns", action="store_true", help="each alone, for figures that are no ratio")
    parser.add_argument("--put", action="store_true", help="how soon a new connector's first record is copied")
    names = [profile.name for profile in PROFILES]
    parser.add_argument("--profile", action="append", choices=names, help="this kind of topic only")
    return parser


if __name__ == "__main__":
    sys.exit(main())
