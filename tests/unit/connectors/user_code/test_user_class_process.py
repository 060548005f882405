"""The process of a user's class: what it refuses, how it calls, and when it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_connect.connectors.user_code.user_class_process import (
    IDLE,
    SHOWN,
    Problem,
    _called,
    _check_location,
    _described,
    _made,
    _shown,
    _takes,
)

METHODS = {"accepts": {"arguments": ["topic"], "answers": ["bool"], "required": True}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def put(folder: Path, name: str, text: str) -> None:
    path = folder / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


# Where a module may be.


def test_a_module_in_a_folder_of_plugin_path_is_accepted(folder: Path) -> None:
    put(folder, "of_a_plugin", "")
    _check_location("of_a_plugin", [str(folder)], [])


@pytest.mark.parametrize("module", ["json", "sys", "no_such_module", "json.tool"])
def test_any_other_module_is_refused(module: str, tmp_path: Path) -> None:
    with pytest.raises(Problem, match=f"^there is no module {module.partition('.')[0]} in a directory"):
        _check_location(module, [str(tmp_path)], [])


@pytest.mark.parametrize(
    ("module", "elsewhere", "accepted"),
    [
        ("json", ["json"], True),
        ("json.tool", ["json"], True),
        ("json.tool", ["json.tool"], True),
        ("json", ["*"], True),
        ("json", ["json.tool"], False),
        ("jsonx", ["json"], False),
    ],
)
def test_a_module_that_the_worker_names_may_be_elsewhere(
    module: str, elsewhere: list[str], accepted: bool, tmp_path: Path
) -> None:
    if accepted:
        _check_location(module, [str(tmp_path)], elsewhere)
    else:
        with pytest.raises(Problem):
            _check_location(module, [str(tmp_path)], elsewhere)


def test_a_folder_whose_name_only_begins_alike_is_another_one(folder: Path) -> None:
    put(folder, "plugins-old/beside", "")
    (folder / "plugins").mkdir()
    sys.path.insert(0, str(folder / "plugins-old"))
    try:
        with pytest.raises(Problem):
            _check_location("beside", [str(folder / "plugins")], [])
    finally:
        sys.path.remove(str(folder / "plugins-old"))


# Creating the class.

CLASSES = """
from abc import ABC, abstractmethod

class Good:
    def __init__(self, config): self.config = config
    def accepts(self, topic): return True

class Bare:
    def accepts(self, topic): return True

class Outer:
    class Inner(Bare): pass

class Without: pass

class Abstract(ABC):
    @abstractmethod
    def accepts(self, topic): ...

class Narrow:
    def accepts(self): return True

class Raising:
    def __init__(self, config): raise KeyError("region")
    def accepts(self, topic): return True

VALUE = 3
"""


@pytest.mark.parametrize("name", ["Good", "Bare", "Outer.Inner"])
def test_a_class_is_created_with_the_config_if_it_takes_one(folder: Path, name: str) -> None:
    put(folder, "classes", CLASSES)
    made = _made("classes", name, {"a": "b"}, METHODS)
    assert made.accepts("x") is True
    assert getattr(made, "config", {"a": "b"}) == {"a": "b"}


@pytest.mark.parametrize(
    ("module", "name", "problem"),
    [
        ("nowhere", "Good", "there is no module nowhere for "),
        (
            "needy",
            "Good",
            "importing module needy raised ModuleNotFoundError: No module named 'nowhere' (line 1 of nee",
        ),
        ("leaving", "Good", "importing module leaving raised SystemExit: 3 (line 1 of leaving.py)"),
        ("classes", "Missing", "module classes has no class Missing"),
        ("classes", "VALUE", "module classes has no class VALUE"),
        ("classes", "Without", "class Without has no method accepts(topic)"),
        ("classes", "Abstract", "class Abstract has no method accepts(topic)"),
        ("classes", "Narrow", "method accepts of class Narrow can't be called as accepts(topic)"),
        ("classes", "Raising", "Raising(config) raised KeyError: 'region' (line "),
    ],
)
def test_a_class_that_can_not_be_created_has_its_reason(folder: Path, module: str, name: str, problem: str) -> None:
    put(folder, "classes", CLASSES)
    put(folder, "needy", "import nowhere\n")
    put(folder, "leaving", "raise SystemExit(3)\n")
    with pytest.raises(Problem) as raised:
        _made(module, name, {}, METHODS)
    assert str(raised.value).startswith(problem)


def test_an_optional_method_may_be_missing(folder: Path) -> None:
    put(folder, "classes", CLASSES)
    optional = {**METHODS, "more": {"arguments": ["name"], "answers": ["bool"], "required": False}}
    assert _made("classes", "Good", {}, optional).accepts("x") is True


@pytest.mark.parametrize(
    ("function", "count", "takes"),
    [
        (lambda: 1, 0, True),
        (lambda: 1, 1, False),
        (lambda one, two=2: one, 1, True),
        (lambda *all_of_them: all_of_them, 3, True),
        (lambda *, key: key, 0, False),
    ],
)
def test_how_many_arguments_a_function_takes(function: Callable[..., Any], count: int, takes: bool) -> None:
    assert _takes(function, count) is takes


# Calling it.


def answering(answer: object) -> SimpleNamespace:
    return SimpleNamespace(accepts=lambda _topic: answer)


@pytest.mark.parametrize(("answer", "expected"), [(True, ["bool"]), ("x", ["str"]), (None, ["str", "NoneType"])])
def test_an_answer_of_an_expected_type_is_returned(answer: object, expected: list[str]) -> None:
    assert _called(answering(answer), "accepts", ["t"], expected) is answer


@pytest.mark.parametrize(
    ("answer", "expected", "problem"),
    [
        (1, ["bool"], "accepts('t') returned 1, not True or False"),
        (None, ["bool"], "accepts('t') returned None, not True or False"),
        (b"x", ["str", "NoneType"], "accepts('t') returned b'x', not a text or None"),
    ],
)
def test_an_answer_of_another_type_is_a_problem(answer: object, expected: list[str], problem: str) -> None:
    with pytest.raises(Problem) as raised:
        _called(answering(answer), "accepts", ["t"], expected)
    assert str(raised.value) == problem


def test_whatever_a_call_raises_is_a_problem() -> None:
    def leave(_topic: str) -> None:
        raise SystemExit("good\nbye")

    with pytest.raises(
        Problem, match=r"^accepts\('t'\) raised SystemExit: good bye \(line \d+ of test_user_class_process"
    ):
        _called(SimpleNamespace(accepts=leave), "accepts", ["t"], ["bool"])


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def test_what_can_not_be_shown_is_named_by_its_type() -> None:
    assert (_described(Unprintable()), _shown(Unprintable())) == ("Unprintable", "a Unprintable")


def test_long_texts_are_cut() -> None:
    assert (len(_described(ValueError("x" * 1000))), len(_shown("x" * 1000))) == (SHOWN, SHOWN)


# The process.

SCRIPT = Path(sys.modules[Problem.__module__].__file__ or "")
SERVED = """
print("not an answer")
class Mine:
    def accepts(self, topic):
        print("nor is this")
        if topic == "slow":
            while True: pass
        return topic == "a"
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A process with this job; `limits` replace generous ones."""
    started: list[subprocess.Popen[str]] = []

    def begin(class_name: str = "Mine", **limits: float) -> subprocess.Popen[str]:
        put(tmp_path, "served", SERVED)
        job = {"module": "served", "class": class_name, "config": {}, "methods": METHODS, "path": [str(tmp_path)]}
        job |= {"elsewhere": [], "memory": 2 << 30, "start_s": 60.0, "call_s": 60.0, "idle_s": 60.0, **limits}
        process = subprocess.Popen(
            [sys.executable, "-P", str(SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        started.append(process)
        say(process, job)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def say(process: subprocess.Popen[str], line: object) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(line) + "\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_each_call_is_answered_and_what_the_class_prints_is_no_answer(start: Callable[..., Any]) -> None:
    process = start()
    assert heard(process) == {"answer": ["accepts"]}
    say(process, {"method": "accepts", "calls": [["a"], ["b"]]})
    assert [heard(process), heard(process)] == [{"answer": True}, {"answer": False}]


def test_a_class_that_can_not_be_created_ends_the_process(start: Callable[..., Any]) -> None:
    process = start("Other")
    assert heard(process) == {"problem": "module served has no class Other"}
    assert process.wait(60) == 1


def test_an_idle_process_ends_by_itself(start: Callable[..., Any]) -> None:
    assert start(idle_s=0.05).wait(60) == IDLE


def test_a_call_that_computes_too_long_is_ended_by_the_kernel(start: Callable[..., Any]) -> None:
    process = start(call_s=0.2)
    say(process, {"method": "accepts", "calls": [["slow"]]})
    assert process.wait(60) == -27  # SIGPROF


def test_the_process_ends_with_its_parent_also_during_a_call(start: Callable[..., Any]) -> None:
    process = start()
    heard(process)
    say(process, {"method": "accepts", "calls": [["slow"]]})
    process.stdin.close()
    assert process.wait(60) == 0
