"""Each problem is logged once until it is resolved, and thousands of one kind don't make thousands of lines."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from mirror_connect.connectors import problems
from mirror_connect.connectors.problems import (
    CAUSE_S,
    MOST_LOGGED,
    MOST_SHOWN,
    SHOWN_AFTER_S,
    Problem,
    ProblemCode,
    Problems,
    cluster_unreachable,
    different,
    status_lines,
)

BEGUN = 1_700_000_000.0
CODE = ProblemCode.PARTITION_UNWRITABLE


def unwritable(subject: str, error: str = "6", text: str = "") -> Problem:
    return Problem(subject, CODE, text or f"{subject} is away", error=error)


class Clock:
    """Seconds since 1970 that a test moves."""

    def __init__(self) -> None:
        self.now = BEGUN

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(problems, "_since", {})
    return Clock()


# The value.


def test_a_line_has_what_since_when_why_and_what_to_do() -> None:
    problem = Problem(
        "c", ProblemCode.CLUSTER_UNREACHABLE, "It can't be reached", "no answer", "look at it", since=BEGUN
    )
    assert problem.line == "It can't be reached since 2023-11-14 22:13:20 UTC: no answer; look at it"
    assert Problem("c", ProblemCode.CLUSTER_UNREACHABLE, "It can't be reached").line == "It can't be reached"


def test_an_advice_that_is_a_sentence_elsewhere_goes_on_in_the_line() -> None:
    problem = Problem("c", ProblemCode.CLUSTER_UNREACHABLE, "It can't be reached", "no answer", "Look at it")
    assert problem.line == "It can't be reached: no answer; look at it"


def test_it_travels_as_json() -> None:
    problem = Problem("c", ProblemCode.CLUSTER_UNREACHABLE, "text", "cause", "advice", "ERROR", BEGUN)
    assert Problem.from_json(problem.to_json()) == problem
    with pytest.raises(ValueError, match="UNHEARD_OF"):
        Problem.from_json({**problem.to_json(), "code": "UNHEARD_OF"})


@pytest.mark.parametrize("code", ProblemCode)
def test_codes_are_their_own_names(code: ProblemCode) -> None:
    assert code.value == code.name


def test_of_many_lines_the_last_one_counts_the_others() -> None:
    lines = status_lines([unwritable(f"a-{number}") for number in range(MOST_SHOWN + 4)], more=3)
    assert (len(lines), lines[-1]) == (MOST_SHOWN + 1, "… and 7 more lines like these")


def test_one_reason_of_many_partitions_is_one_problem() -> None:
    broker = unwritable("broker 1")
    assert different([broker, None, unwritable("a-1"), broker]) == (broker, unwritable("a-1"))


# In the log.


def test_a_problem_is_logged_once() -> None:
    lines: list[str] = []
    owner = Problems(lines.append)
    for _ in range(2):
        owner.report(unwritable("t-0"))
    assert lines == ["t-0 is away"]


def test_another_error_of_the_same_thing_is_logged_too() -> None:
    lines: list[str] = []
    owner = Problems(lines.append)
    owner.report(unwritable("t-0", "6", "away"))
    owner.report(unwritable("t-0", "3", "gone"))
    assert lines == ["away", "gone"]


def test_what_is_resolved_is_logged_again_when_it_comes_back() -> None:
    lines: list[str] = []
    owner = Problems(lines.append)
    for _ in range(2):
        owner.report(unwritable("t-0"))
        owner.resolve("t-0")
    assert lines == ["t-0 is away", "t-0 is away"]


def test_what_is_resolved_in_one_respect_is_not_logged_again_in_another() -> None:
    lines: list[str] = []
    owner = Problems(lines.append)
    owner.report(unwritable("t-0"))
    owner.report(Problem("t-0", ProblemCode.PRODUCER_STATE_LOST, "gone"))
    owner.resolve("t-0", ProblemCode.PRODUCER_STATE_LOST)
    owner.report(unwritable("t-0"))
    assert lines == ["t-0 is away", "gone"]


def test_the_end_of_a_problem_is_logged_if_its_beginning_was() -> None:
    lines: list[str] = []
    owner = Problems(lines.append)
    owner.report(unwritable("t-0"), logged=False)
    owner.resolve("t-0", CODE, line="t-0 answers again")
    assert lines == []
    owner.report(unwritable("t-0"))
    owner.resolve("t-0", CODE, line="t-0 answers again")
    assert lines == ["t-0 is away", "t-0 answers again"]


def test_of_thousands_some_are_named_and_the_last_line_says_that_there_are_more() -> None:
    lines: list[str] = []
    owner = Problems(lines.append)
    for number in range(6000):
        owner.report(unwritable(f"t-{number}"))
    assert lines == [
        *(f"t-{number} is away" for number in range(MOST_LOGGED)),
        f"t-{MOST_LOGGED} is away. There are more of these: no further line before some of them are over",
    ]


def test_after_many_were_resolved_a_new_one_is_logged() -> None:
    lines: list[str] = []
    owner = Problems(lines.append)
    for number in range(6000):
        owner.report(unwritable(f"t-{number}"))
    for number in range(6000):
        owner.resolve(f"t-{number}")
    owner.report(unwritable("t-1", text="away again"))
    assert lines[-1] == "away again"


async def moments(lines: list[str], count: int) -> None:
    """Until so many lines have come."""
    async with asyncio.timeout(60):
        while len(lines) < count:
            await asyncio.sleep(0.005)


async def test_of_what_happens_to_many_at_a_time_some_are_named_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(problems, "BURST_S", 0.02)
    lines: list[str] = []
    owner = Problems(lines.append)
    for number in range(MOST_LOGGED + 40):
        owner.report(unwritable(f"t-{number}"), many="partitions are away")
    await moments(lines, MOST_LOGGED + 1)
    assert lines == [*(f"t-{number} is away" for number in range(MOST_LOGGED)), "40 more partitions are away"]


async def test_ends_of_many_problems_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "BURST_S", 0.02)
    lines: list[str] = []
    owner = Problems(lines.append)
    for number in range(MOST_LOGGED + 2):
        owner.report(unwritable(f"t-{number}"), many="away")
    await moments(lines, MOST_LOGGED + 1)
    for number in range(MOST_LOGGED + 2):
        owner.resolve(f"t-{number}", line=f"t-{number} is back", many="are back")
    await moments(lines, 2 * (MOST_LOGGED + 1))
    assert lines[-2:] == [f"t-{MOST_LOGGED - 1} is back", "2 more are back"]


async def test_what_was_skipped_in_those_that_are_counted_is_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "BURST_S", 0.02)
    lines: list[str] = []
    owner = Problems(lines.append)
    for number in range(MOST_LOGGED + 3):
        event = Problem(f"t-{number}", ProblemCode.OFFSETS_GONE, f"t-{number}: 5 offsets skipped")
        owner.event(event, "partitions had gaps", offsets=5)
    await moments(lines, MOST_LOGGED + 1)
    assert lines[-1] == "3 more partitions had gaps: 15 offsets of them skipped"


async def test_what_happens_to_others_at_another_moment_is_logged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "BURST_S", 0.02)
    lines: list[str] = []
    owner = Problems(lines.append)
    for moment in range(2):
        for number in range(MOST_LOGGED + 1):
            owner.event(Problem(f"t-{number}", ProblemCode.OFFSETS_GONE, f"t-{number}"), "more")
        owner.event(Problem("another", ProblemCode.TOPIC_RECREATED, "another"), "others")
        await moments(lines, (moment + 1) * (MOST_LOGGED + 2))
    assert lines[MOST_LOGGED : MOST_LOGGED + 3] == ["another", "1 more more", "t-0"]


def test_an_event_that_is_found_again_has_not_happened_again() -> None:
    events: list[Problem] = []
    owner = Problems(print, events.append)
    gone = Problem("t-0", ProblemCode.OFFSETS_GONE, "gone")
    for found in (1, 1, 2):
        owner.event(gone, found=found)
    assert events == [gone, gone]


# In the status.


def away(cause: str = "Connection refused") -> Problem:
    return Problem("cluster", ProblemCode.CLUSTER_UNREACHABLE, "It is away", cause, "it is tried again")


def shown_line(owner: Problems) -> str:
    return "; ".join(problem.line for problem in owner.shown())


def test_what_lasts_is_shown_with_since_when_and_why(clock: Clock) -> None:
    owner = Problems(print, run="run", clock=clock)
    owner.report(away(), shown=True)
    clock.now += SHOWN_AFTER_S
    assert shown_line(owner) == "It is away since 2023-11-14 22:13:20 UTC: Connection refused; it is tried again"


def test_a_moment_is_not_shown(clock: Clock) -> None:
    owner = Problems(print, run="run", clock=clock)
    owner.report(away(), shown=True)
    assert owner.shown() == []


def test_what_is_only_for_the_log_is_not_shown(clock: Clock) -> None:
    owner = Problems(print, run="run", clock=clock)
    owner.report(away())
    clock.now += SHOWN_AFTER_S
    assert owner.shown() == []


def test_what_answers_again_is_not_shown(clock: Clock) -> None:
    owner = Problems(print, run="run", clock=clock)
    owner.report(away(), shown=True)
    clock.now += SHOWN_AFTER_S
    owner.resolve("cluster", ProblemCode.CLUSTER_UNREACHABLE)
    assert owner.shown() == []


def test_the_line_stays_the_same_while_nothing_changes(clock: Clock) -> None:
    owner = Problems(print, run="run", clock=clock)
    lines = set()
    for _ in range(100):
        owner.report(away(), shown=True)
        clock.now += SHOWN_AFTER_S
        lines.add(shown_line(owner))
    assert len(lines) == 1


def test_causes_that_alternate_change_the_line_twice_a_minute_at_most(clock: Clock) -> None:
    owner = Problems(print, run="run", clock=clock)
    lines = []
    for number in range(60):
        owner.report(away(("no connection", "no answer")[number % 2]), shown=True)
        clock.now += 1.0
        lines.append(shown_line(owner))
    changes = sum(one != other for one, other in itertools.pairwise(lines[2:]))
    assert changes <= 60 / CAUSE_S


def test_another_cause_is_shown_in_the_end(clock: Clock) -> None:
    owner = Problems(print, run="run", clock=clock)
    owner.report(away(), shown=True)
    clock.now += CAUSE_S
    owner.report(away("the name can't be resolved"), shown=True)
    assert ": the name can't be resolved; " in shown_line(owner)


def test_the_next_epoch_in_this_process_knows_since_when(clock: Clock) -> None:
    begins = []
    for seconds in (0, 600):
        clock.now = BEGUN + seconds
        owner = Problems(print, run="run", clock=clock)
        begins.append(owner.report(away(), shown=True))
    clock.now += SHOWN_AFTER_S
    assert " since 2023-11-14 22:13:20 UTC: " in shown_line(owner)
    assert begins == [True, False]


def test_another_run_has_its_own_time(clock: Clock) -> None:
    Problems(print, run="run", clock=clock).report(away(), shown=True)
    clock.now += 3_600
    owner = Problems(print, run="another", clock=clock)
    owner.report(away(), shown=True)
    clock.now += SHOWN_AFTER_S
    assert " since 2023-11-14 23:13:20 UTC: " in shown_line(owner)


def test_a_cluster_is_named_by_its_bootstrap_servers() -> None:
    line = cluster_unreachable("source cluster A", "a:9092,b:9092", "Connection refused").line
    assert line.startswith(
        "The source cluster A (bootstrap.servers a:9092,b:9092) can't be reached: Connection refused"
    )
