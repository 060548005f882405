"""`make bench`, `python -m benchmarks`: measures this product beside MirrorMaker 2 and writes RESULTS.md (three hours).

Each case may be measured alone: RESULTS.md takes it up and keeps the others.
With --quick everything is short, shown on the console only, and good for nothing but seeing that it works. What else is
measured is of a commit: a tree with changes that are not committed is refused, or with --dirty marked in the results.
"""

from __future__ import annotations

import argparse
import datetime
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from benchmarks import (
    compute,
    dedicated_start,
    epochs,
    exactly_once,
    failover,
    far,
    following,
    latency,
    light_connectors,
    many_connectors,
    many_partitions,
    many_topics,
    memory,
    report,
    scaling,
    spark_placement,
    startup,
    takeover,
    throughput,
    transforms,
)
from benchmarks.console import Console
from benchmarks.machine import describe
from benchmarks.picture import bars
from benchmarks.plan import FULL, FULL_PROFILES, OTHERS, PROFILES, QUICK, Durations
from benchmarks.provenance import DirtyTreeError, history, refuse_dirty, tree
from benchmarks.sides import MM2, MM2_NO_SYNCS, MM2_TUNED, OURS
from benchmarks.store import HERE, PICTURE, REPORT, Part, load, save
from deploy.local import LocalError

INTERRUPTED: Final = 130
REFUSED: Final = 2
ROOT: Final = HERE.parent
_CASES: Final = (*(profile.name for profile in PROFILES), *OTHERS)


def main(arguments: Sequence[str] | None = None) -> int:
    """0: everything was measured, whatever the figures say; 1: something did not work; 2: a dirty tree; 130: Ctrl-C."""
    options = _parser().parse_args(arguments)
    console = Console()
    if options.render:
        _write(load(), console)
        return 0
    try:
        if not options.quick and not options.dirty:
            refuse_dirty(tree(ROOT))
    except DirtyTreeError as error:
        print(error, file=sys.stderr)
        return REFUSED
    # Every `with` below ends what it started; SIGTERM is to do the same as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parts: dict[str, Part] = {}

    def kept_out(name: str) -> bool:
        return bool(options.quick or options.side or name not in report.NAMES)

    try:
        for name, measure in _chosen(options, console):
            # Only before the first part: later it is our own work that is seen.
            load_before = os.getloadavg()[0] if not parts else None
            if load_before is not None and load_before > report.QUIET_LOAD:
                console.say(f"This machine is busy with something else (load {load_before:.1f}): times will be worse")
            before = tree(ROOT)
            figures = measure()
            after = tree(ROOT)
            parts[name] = Part(
                datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
                " ".join(("python -m benchmarks", *(sys.argv[1:] if arguments is None else arguments))),
                before.commit,
                describe(),
                figures,
                load_before,
                # Somebody may have edited or committed meanwhile; processes are started from the files all the time.
                dirty=before.dirty or after != before,
                how=report.how(name),
            )
            _show(console, {name: parts[name]})
            if not kept_out(name):
                # At once: the next case may take half an hour, and be stopped.
                _write(load() | {name: parts[name]}, console)
    except KeyboardInterrupt:
        print("Stopped. What was measured in full before is written.", file=sys.stderr)
        return INTERRUPTED
    except (LocalError, RuntimeError, OSError) as error:
        print(f"The benchmark failed: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(f"  {note}", file=sys.stderr)
        return 1
    if any(map(kept_out, parts)):
        console.say("Not a measurement in full: RESULTS.md stays as it was.")
    return 0


def _chosen(options: argparse.Namespace, console: Console) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is to be measured, by the name its figures are kept under."""
    durations: Durations = QUICK if options.quick else FULL
    for case in options.case or (*FULL_PROFILES, *OTHERS):
        profile = next((each for each in PROFILES if each.name == case), None)
        if profile is not None:
            measure = partial(throughput.measure, profile, durations, console, options.side or ())
            yield f"{report.THROUGHPUT}{case}", measure
        else:
            measured: Callable[..., Any] = {
                "latency": latency.measure,
                "latency-saturated": latency.measure_saturated,
                "epochs": epochs.measure,
                "memory": memory.measure,
                "startup": startup.measure,
                "dedicated-start": dedicated_start.measure,
                "light-connectors": light_connectors.measure,
                "many-connectors": many_connectors.measure,
                "failover": failover.measure,
                "takeover": takeover.measure,
                "exactly-once": exactly_once.measure,
                "many-partitions": many_partitions.measure,
                "many-topics": many_topics.measure,
                "following": following.measure,
                "scaling": scaling.measure,
                "cluster": spark_placement.measure,
                "far": far.measure,
                "compute": compute.measure,
                "transforms": transforms.measure,
            }[case]
            sides: list[str] = options.side or [MM2_TUNED if case == "far" else MM2, OURS]
            yield case, partial(measured, durations, console, sides)


def _show(console: Console, parts: dict[str, Part]) -> None:
    for section in report.sections(parts):
        print(f"\n{section.heading}", flush=True)
        console.table(section.table.head, section.table.rows)
    for aim, _ in report.verdicts(parts):
        print(f"  {aim.what}: {aim.measured} (aim {aim.wanted}) {aim.verdict}", flush=True)
    print(flush=True)


def _write(parts: dict[str, Part], console: Console) -> None:
    save(parts)
    if copied := report.throughput_figures(parts):
        PICTURE.write_text(bars(copied))
    known = history(ROOT, [part.commit for part in parts.values()])
    REPORT.write_text(report.render(parts, known))
    console.say(f"Written: {REPORT.relative_to(ROOT)}")
    for line in report.warnings(parts, known):
        console.say(f"Not to be quoted: {line}")


def _case(name: str) -> str:
    if name not in _CASES:
        raise argparse.ArgumentTypeError(f"there is no {name}; there are {', '.join(_CASES)}")
    return name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n", 1)[0])
    said = f"measure these only, of {', '.join(_CASES)}; by default all but single-1k"
    parser.add_argument("case", nargs="*", type=_case, metavar="CASE", help=said)
    parser.add_argument("--quick", action="store_true", help="short and shown only: to see that it works")
    parser.add_argument("--dirty", action="store_true", help="measure a tree with changes, too; the result is marked")
    parser.add_argument("--render", action="store_true", help="measure nothing: RESULTS.md anew from what is stored")
    parser.add_argument("--side", action="append", choices=(MM2, MM2_NO_SYNCS, MM2_TUNED, OURS), help="this side only")
    return parser


if __name__ == "__main__":
    sys.exit(main())
