"""The script that matches a user's expression in a separate process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

from mirror_connect.connectors.user_code import match_names


def run(pattern: str, flags: int, *names: str) -> tuple[str, int]:
    job = json.dumps({"pattern": pattern, "flags": flags, "names": names}) + "\n"
    script = Path(match_names.__file__)
    done = subprocess.run(
        [sys.executable, "-I", "-S", script], input=job, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout, done.returncode


def test_each_name_is_answered_with_a_line_in_its_order() -> None:
    assert run("a+", 0, "a", "ab", "aa", "") == ("true\nfalse\ntrue\nfalse\n", 0)


def test_flags_of_the_expression_count() -> None:
    assert run("a", re.IGNORECASE, "A") == ("true\n", 0)


def test_a_name_that_takes_too_long_ends_the_process_and_keeps_the_answers_before() -> None:
    answers, code = run("(a+)+", 0, "aaa", "a" * 60 + "-", "a")
    assert (answers, code) == ("true\n", -signal.SIGPROF)
