"""What `make test` does with a failure: whole runs of tests/run.py on planted tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.paths import ROOT

# What takes time to start and isn't needed here is left out.
INI: Final = """
[pytest]
addopts = -ra -p no:cacheprovider -p no:schemathesis -p no:hypothesispytest -p no:anyio -p no:asyncio
"""
# A planted test writes down that it ran, so that its runs can be counted. Two runs at once must not get the same number, so
# each asks where its own write ended.
HEAD: Final = """
import os, subprocess, pytest
from pathlib import Path
from deploy.local import LocalError, NotInTime
from tests.waiting import WaitTimedOut, wait_for, wait_for_state

def ran(name):
    file = os.open(Path(__file__).with_name(name + ".ran"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, b"x")
    number = os.lseek(file, 0, os.SEEK_CUR)
    os.close(file)
    return number
"""
PASSES: Final = "def test_passes(): pass\n"
DATA: Final = "def test_data():\n    assert ran('data') > 1, 'a record is lost'\n"
LATE_ONCE: Final = """
def test_late_once():
    first = ran('late_once') == 1
    wait_for_state(lambda: not first, 'the worker answers', 0.1)
"""
ALWAYS_LATE: Final = """
def test_always_late():
    ran('always_late')
    wait_for_state(lambda: False, 'the worker answers', 0.1)
"""


# Each run of planted tests starts some Pythons, and `make test` has several workers. What is marked `long` here decides less
# than the others do: whether a lost record is red, a wait is tried again, and a skip is a failure.
TWO: Final = pytest.mark.parametrize(
    "two", [pytest.param(False, id="one_worker", marks=pytest.mark.long), pytest.param(True, id="two_workers")]
)


@dataclass(frozen=True)
class Run:
    """How the run of planted tests ended."""

    code: int
    text: str
    folder: Path

    @property
    def last_line(self) -> str:
        """Pytest's own, without its time and its frame."""
        return re.sub(r"^=*\s*| in [0-9.]+s.*$", "", self.text.rstrip().splitlines()[-1])

    def runs(self, name: str) -> int:
        """How often a planted test ran."""
        return (self.folder / f"{name}.ran").stat().st_size

    def closing(self) -> list[str]:
        """The gate's closing lines."""
        below = self.text.rpartition(" late and left out ")[2] if " late and left out " in self.text else ""
        return below.splitlines()[1:-1]


Planted = Callable[..., Run]


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    """`planted("code", …)` runs each piece as a file of tests; `two`: with two workers, as the whole suite is."""
    (tmp_path / "pytest.ini").write_text(INI)

    def run(*files: str, two: bool = False, env: Mapping[str, str] | None = None, more: Sequence[str] = ()) -> Run:
        for number, code in enumerate(files):
            (tmp_path / f"test_planted_{number}.py").write_text(HEAD + code)
        kept = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST")}
        command = [
            sys.executable,
            "-m",
            "tests.run",
            *(["-n2", "--dist=loadfile"] if two else []),
            *more,
            str(tmp_path),
        ]
        done = subprocess.run(
            command, cwd=ROOT, env=kept | dict(env or {}), capture_output=True, text=True, timeout=250, check=False
        )
        return Run(done.returncode, done.stdout, tmp_path)

    return run


@TWO
def test_a_failed_assertion_is_red_and_never_tried_again(planted: Planted, two: bool) -> None:
    run = planted(PASSES, DATA, two=two)
    assert (run.code, run.last_line, run.runs("data"), run.closing()) == (1, "1 failed, 1 passed", 1, [])


@TWO
def test_a_wait_that_ran_out_once_is_tried_again_twice_at_once_and_named(planted: Planted, two: bool) -> None:
    run = planted(PASSES, LATE_ONCE, two=two)
    assert (run.code, run.last_line, run.runs("late_once")) == (0, "2 passed", 3), run.text
    assert run.closing() == [
        "1 test in which a wait ran out, passed when tried again:",
        "  test_planted_1.py::test_late_once: tests.waiting.WaitTimedOut: not within 0.1 s: the worker answers",
    ]


@pytest.mark.long
@TWO
def test_what_failed_is_named_at_once_and_not_at_the_end_only(planted: Planted, two: bool) -> None:
    run = planted(DATA, PASSES, two=two)
    while_it_ran = run.text.partition(" FAILURES ")[0].splitlines()
    named = [re.sub(r"[^ ]*/", "", line) for line in while_it_ran if line.startswith("failed: ")]
    assert named == ["failed: test_planted_0.py::test_data: AssertionError: a record is lost"], run.text


def test_a_wait_that_runs_out_again_is_red(planted: Planted) -> None:
    run = planted(PASSES, ALWAYS_LATE)
    assert (run.code, run.last_line, run.runs("always_late")) == (1, "1 failed, 1 passed", 3)
    assert run.closing()[0] == "1 test in which a wait ran out, tried again, and not passed: see above:"


@pytest.mark.long
def test_one_of_two_second_tries_is_not_enough(planted: Planted) -> None:
    run = planted(LATE_ONCE.replace("== 1", "<= 2"))
    assert (run.code, run.last_line, run.runs("late_once")) == (1, "1 failed", 3)


def test_data_found_wrong_in_the_second_try_are_red(planted: Planted) -> None:
    run = planted(LATE_ONCE + "    assert first, 'a record is lost'\n")
    assert (run.code, run.last_line) == (1, "1 failed")
    assert "a record is lost" in run.text


def test_beside_a_failed_assertion_no_wait_is_tried_again_but_it_is_named(planted: Planted) -> None:
    run = planted(DATA, LATE_ONCE)
    assert (run.code, run.last_line, run.runs("late_once")) == (1, "2 failed", 1)
    assert run.closing() == [
        "1 test in which a wait ran out, not tried again, since something else failed:",
        "  test_planted_1.py::test_late_once: tests.waiting.WaitTimedOut: not within 0.1 s: the worker answers",
    ]


def test_waits_that_run_out_in_many_files_are_no_accident(planted: Planted) -> None:
    run = planted(*[ALWAYS_LATE] * 4)
    assert (run.code, run.last_line, run.runs("always_late")) == (1, "4 failed", 4)
    assert run.closing()[0] == ("4 tests in which a wait ran out, not tried again: in 4 files this is no accident:")


FINAL: Final = """
def test_a_wait_for_records():
    ran('it')
    wait_for(lambda: False, '10 records are there', 0.1)
def test_a_wait_for_records_within_one_for_a_state():
    ran('it')
    wait_for_state(lambda: wait_for(lambda: False, 'records', 0.1), 'a state', 0.2)
def test_an_assertion_whose_clean_up_ran_out_of_time():
    ran('it')
    try:
        assert [1, 3] == [1, 2, 3]
    finally:
        raise WaitTimedOut('no end')
def test_an_assertion_called_a_wait():
    ran('it')
    try:
        assert [1, 3] == [1, 2, 3]
    except AssertionError as error:
        raise WaitTimedOut('late') from error
def test_an_assertion_with_the_text_of_a_wait():
    ran('it')
    raise AssertionError('not within 60 s: the worker answers')
def test_a_time_limit_of_the_product():
    ran('it')
    raise TimeoutError('of the product')
def test_a_cluster_that_failed():
    ran('it')
    raise LocalError('a broker has ended')
def test_a_group_of_errors():
    ran('it')
    raise ExceptionGroup('', [WaitTimedOut('a'), ValueError()])
def test_a_failure_declared():
    ran('it')
    pytest.fail('hangs')
@pytest.mark.timeout(0.3)
def test_a_limit_of_a_whole_test():
    ran('it')
    import time
    time.sleep(9)
"""


def test_everything_else_is_final(planted: Planted) -> None:
    run = planted(FINAL)
    assert (run.code, run.last_line, run.runs("it"), run.closing()) == (1, "10 failed", 10, []), run.text


@pytest.mark.parametrize(
    "error",
    [
        pytest.param("NotInTime('broker 1 accepts no connection')", id="a_cluster"),
        pytest.param("WaitTimedOut('late')", id="a_wait", marks=pytest.mark.long),
    ],
)
def test_a_fixture_that_was_late_is_tried_again_with_all_its_tests(planted: Planted, error: str) -> None:
    run = planted(f"""
@pytest.fixture(scope="module")
def worker():
    if ran('it') == 1:
        raise {error}
def test_one(worker): pass
def test_two(worker): pass
""")
    assert (run.code, run.last_line, run.runs("it")) == (0, "2 passed", 3), run.text
    assert run.closing()[0] == "2 tests in which a wait ran out, passed when tried again:"


@pytest.mark.long
def test_a_late_clean_up_is_tried_again_and_its_test_counted_once(planted: Planted) -> None:
    run = planted("""
@pytest.fixture
def worker():
    yield
    if ran('it') == 1:
        raise WaitTimedOut('no process is left')
def test_it(worker): pass
""")
    assert (run.code, run.last_line, run.runs("it")) == (0, "1 passed", 3), run.text


SKIPS: Final = """
def test_it():
    pytest.skip("Kafka 2.8's jars are not there")
@pytest.mark.skipif(True, reason="only root may mount")
def test_other(): pass
@pytest.mark.xfail(reason="known", strict=True)
def test_known():
    assert False
"""


@pytest.mark.parametrize(
    "ci",
    [
        pytest.param({}, id="unset"),
        pytest.param({"CI": ""}, id="empty", marks=pytest.mark.long),
        pytest.param({"CI": "false"}, id="false", marks=pytest.mark.long),
    ],
)
def test_skips_are_named_in_the_closing_lines(planted: Planted, ci: Mapping[str, str]) -> None:
    run = planted(PASSES, SKIPS, env=ci)
    assert (run.code, run.last_line) == (0, "1 passed, 2 skipped, 1 xfailed")
    assert run.closing() == [
        "2 skipped, a failure where CI is set:",
        "  test_planted_1.py: Skipped: Kafka 2.8's jars are not there",
        "  test_planted_1.py: Skipped: only root may mount",
    ]


@TWO
def test_a_skip_is_a_failure_where_ci_is_set(planted: Planted, two: bool) -> None:
    run = planted(PASSES, SKIPS, two=two, env={"CI": "true"})
    assert (run.code, run.last_line) == (1, "1 failed, 1 passed, 1 xfailed, 1 error")
    assert "skipped, and CI is set: Skipped: Kafka 2.8's jars are not there" in run.text


def test_a_skip_for_want_of_a_tool_is_named_and_no_failure_where_ci_is_set(planted: Planted) -> None:
    code = "@pytest.mark.tool('no-such-shell')\ndef test_it(): pytest.skip('there is no such shell')\n"
    run = planted(PASSES, code, env={"CI": "true"})
    assert run.code == 0, run.text
    assert run.closing() == ["1 skipped:", "  test_planted_1.py: Skipped: there is no such shell"]


def test_a_tool_that_is_there_excuses_no_skip(planted: Planted) -> None:
    code = "@pytest.mark.tool('sh')\ndef test_it(): pytest.skip('it is not wanted today')\n"
    run = planted(PASSES, code, env={"CI": "true"})
    assert (run.code, "skipped, and CI is set: Skipped: it is not wanted today" in run.text) == (1, True)


def test_a_skipped_file_is_a_failure_where_ci_is_set(planted: Planted) -> None:
    run = planted(PASSES, "pytest.skip('no Java', allow_module_level=True)\n", env={"CI": "1"})
    assert (run.code, run.last_line) == (2, "1 error")


def test_the_seed_is_printed_and_can_be_set(planted: Planted) -> None:
    code = "from tests.seeds import chance, seed\ndef test_it():\n    assert seed() == 7\n"
    run = planted(code, two=True, env={"TESTS_SEED": "7"})
    assert (run.code, "seed: TESTS_SEED=7" in run.text) == (0, True)


@pytest.mark.long
def test_workers_share_the_seed_that_was_made_up(planted: Planted) -> None:
    code = "from tests.seeds import seed\ndef test_it():\n    Path(__file__).with_suffix('.seed').write_text(str(seed()))\n"
    run = planted(code, code, two=True)
    seeds = {file.read_text() for file in run.folder.glob("*.seed")}
    assert (run.code, [f"seed: TESTS_SEED={seed}" in run.text for seed in seeds]) == (0, [True])


def test_what_a_process_has_compiled_the_next_one_finds(planted: Planted) -> None:
    code = "import sys\ndef test_it(): assert not sys.dont_write_bytecode\n"
    run = planted(code, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert (run.code, run.last_line) == (0, "1 passed"), run.text


@pytest.mark.long
def test_files_are_named_with_the_time_that_their_tests_took(planted: Planted) -> None:
    code = "import time\n@pytest.fixture\ndef slow(): time.sleep(0.4)\ndef test_it(slow): time.sleep(0.4)\n"
    run = planted(PASSES, code, two=True, more=["--slowest-files=1"])
    below = run.text.partition("slowest files, with what their tests share")[2].splitlines()
    took, name = below[1].split(" s ")
    # No less than what test and fixture slept; how much more is the machine's matter.
    assert (run.code, float(took) >= 0.8, name) == (0, True, "test_planted_1.py")
    assert len(below) == 3
