"""Errors of users' classes that can't be created, can't answer, or misbehave."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.user_code.user_class import (
    PLUGIN_MODULES,
    PLUGIN_PATH,
    Limits,
    UserClass,
    class_problem,
    name_problem,
)

SETTING = "topic.filter.class"
Make = Callable[..., UserClass]
# By the clock: far more than any machine needs. Those that are to be breached are set by their tests.
LIMITS = Limits(start_s=60, call_s=60, wait_s=120, all_s=120, idle_s=120)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))
    monkeypatch.delenv(PLUGIN_MODULES, raising=False)
    return tmp_path


@pytest.fixture
def made(folder: Path) -> Make:
    """The class `Mine` of a module with this text; `body`: of its should_replicate_topic."""

    def make(body: str = "return True", *, above: str = "", limits: Limits = LIMITS, **config: str) -> UserClass:
        text = f"{above}\nclass Mine:\n    def should_replicate_topic(self, topic):\n        {body}\n"
        (folder / "mine.py").write_text(text)
        return UserClass(SETTING, "python:mine:Mine", config, limits)

    return make


def process_of(code: UserClass) -> psutil.Process:
    assert code._process is not None
    return psutil.Process(code._process._popen.pid)


def ask(code: UserClass, *topics: str) -> list[bool]:
    return code.ask("should_replicate_topic", [[topic] for topic in topics])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("python:a.b:C", None),
        ("python:a:C.D", None),
        ("python:a", "It must be written python:package.module:Class."),
        ("python:a-b:C", "It must be written python:package.module:Class."),
        ("python:../x:C", "It must be written python:package.module:Class."),
        (
            "com.acme.F",
            "Class com.acme.F could not be found. Your own class is written python:package.module:Class.",
        ),
        ("", "Class  could not be found."),
    ],
)
def test_a_name_has_module_and_class(text: str, problem: str | None) -> None:
    assert name_problem(text) == problem


def test_an_unknown_name_is_told_with_the_classes_that_there_are() -> None:
    policies = "org.apache.kafka.connect.mirror.{}ReplicationPolicy".format
    assert name_problem("com.acme.P", "ReplicationPolicy") == (
        f"Class com.acme.P could not be found. There is {policies('Default')} and {policies('Identity')}. "
        "Your own class is written python:package.module:Class."
    )


def test_each_question_has_its_answer(made: Make) -> None:
    assert ask(made("return topic.startswith('eu')"), "eu.a", "us.a", "eu.b") == [True, False, True]


def test_more_questions_than_a_pipe_holds_are_answered(made: Make) -> None:
    topics = [f"{'x' * 200}{number}" for number in range(5_000)]
    assert ask(made("return topic.endswith('7')"), *topics) == [topic.endswith("7") for topic in topics]


def test_the_config_is_given_without_what_is_secret(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "class Mine:\n"
        "    def __init__(self, config): self.names = sorted(config)\n"
        "    def should_replicate_topic(self, topic): raise ValueError(' '.join(self.names))\n"
    )
    config = {"acme.region": "eu", "source.cluster.sasl.jaas.config": "x", "ssl.key.password": "y"}
    with pytest.raises(ConfigError, match=r"raised ValueError: acme\.region \(line 3 of mine\.py\)"):
        ask(UserClass(SETTING, "python:mine:Mine", config, LIMITS), "a")


def test_nothing_of_the_environment_but_the_usual_is_there(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_LOGIN", "hunter2")
    assert ask(made("return 'DATABASE_LOGIN' in os.environ", above="import os"), "a") == [False]


def test_what_a_class_prints_is_no_answer(made: Make) -> None:
    assert ask(made("print('{\"answer\": false}', flush=True); return True"), "a") == [True]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param("raise ValueError('no\\ngood')", "raised ValueError: no good (line 4 of mine.py)", id="raises"),
        pytest.param("raise SystemExit(0)", "raised SystemExit: 0 (line 4 of mine.py)", id="asks_for_the_end"),
        pytest.param("return None", "returned None, not True or False", id="forgets_to_answer"),
        pytest.param("return 1", "returned 1, not True or False", id="answers_with_a_number"),
        pytest.param("import os; os._exit(0)", "ended its process (exit code 0)", id="ends_its_process"),
        pytest.param("import os; os.abort()", "ended its process (exit code -6)", id="aborts"),
        pytest.param("return len('x' * (9 << 30)) > 0", "raised MemoryError (line 4 of mine.py)", id="takes_memory"),
    ],
)
def test_an_answer_that_is_none_is_one_line_that_names_the_class(made: Make, body: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ask(made(f"if topic == 'b': {body}\n        return True"), "a", "b")
    line = f"Invalid value python:mine:Mine for configuration {SETTING}: should_replicate_topic('b') {told}"
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("body", "limits"),
    [
        pytest.param("\n        while True: pass", Limits(call_s=0.5), id="computes"),
        pytest.param("import re; re.match('(a+)+$', 'a' * 40 + 'b')", Limits(call_s=0.5), id="with_the_lock_in_hand"),
        pytest.param("import time; time.sleep(3600)", Limits(wait_s=0.5), id="sleeps"),
    ],
)
def test_what_never_answers_is_ended(made: Make, body: str, limits: Limits) -> None:
    code = made(body, limits=replace(LIMITS, call_s=limits.call_s))
    code.start()
    code._limits = limits  # not before it is there: how long that takes is the machine's matter
    with pytest.raises(ConfigError, match=r"should_replicate_topic\('a'\) takes more than"):
        ask(code, "a")


def test_many_slow_answers_are_ended_together(made: Make) -> None:
    code = made("import time; time.sleep(0.1); return True")
    code.start()
    code._limits = replace(LIMITS, all_s=1)
    with pytest.raises(ConfigError, match="takes more than 1 s"):
        ask(code, *map(str, range(10_000)))


def test_after_a_failure_it_is_made_anew(made: Make) -> None:
    code = made("return topic if topic == 'b' else True")
    with pytest.raises(ConfigError):
        ask(code, "b")
    assert ask(code, "a") == [True]


def test_what_was_idle_is_made_anew_when_it_is_asked(made: Make) -> None:
    code = made(limits=replace(LIMITS, idle_s=0.05))
    ask(code, "a")
    process_of(code).wait(60)
    assert ask(code, "a") == [True]


def test_an_end_between_two_questions_is_no_failure(made: Make) -> None:
    code = made("print(end=''); return True", limits=replace(LIMITS, idle_s=0.01))
    assert [ask(code, str(number)) for number in range(20)] == [[True]] * 20


def test_the_process_ends_when_the_class_is_forgotten(made: Make) -> None:
    code = made()
    ask(code, "a")
    process = process_of(code)
    del code
    gc.collect()
    assert not process.is_running()


def test_a_sleeping_class_ends_with_its_worker(made: Make, folder: Path) -> None:
    # Its standard input ends, and no signal comes.
    code = made("open('began', 'w').close(); time.sleep(3600)", above=f"import os, time\nos.chdir({str(folder)!r})")
    code.start()
    process = process_of(code)
    assert code._process is not None
    os.set_blocking(code._process._to, True)
    os.write(code._process._to, b'{"method": "should_replicate_topic", "calls": [["a"]]}\n')
    while not (folder / "began").exists():
        assert process.is_running()
        time.sleep(0.02)
    assert code._process._popen.stdin is not None
    code._process._popen.stdin.close()
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("python:nowhere.at.all:Mine", "there is no module nowhere in a directory"),
        ("python:json.nowhere:Mine", "there is no module json in a directory"),
        ("python:mine:Theirs", "module mine has no class Theirs"),
        ("python:mine:VALUE", "module mine has no class VALUE"),
        ("python:mine:Empty", "class Empty has no method should_replicate_topic(topic)"),
        ("python:mine:Abstract", "class Abstract has no method should_replicate_topic(topic)"),
        ("python:mine:Raising", "Raising(config) raised KeyError: 'region' (line "),
        ("python:mine:Narrow", "method should_replicate_topic of class Narrow can't be called as should_replicate_"),
        ("python:broken:Mine", "importing module broken raised SyntaxError: "),
        ("python:needy:Mine", "importing module needy raised ModuleNotFoundError: No module named 'nowhere' (line 1 "),
        ("python:leaving:Mine", "importing module leaving raised SystemExit: 3 (line 1 of leaving.py)"),
        ("python:mine:Good", None),
        ("python:mine:Bare", None),
        ("python:mine:Outer.Inner", None),
    ],
)
def test_a_class_that_can_not_be_asked_is_told_why(folder: Path, text: str, problem: str | None) -> None:
    (folder / "broken.py").write_text("class:\n")
    (folder / "needy.py").write_text("import nowhere\n")
    (folder / "leaving.py").write_text("raise SystemExit(3)\n")
    (folder / "mine.py").write_text(
        textwrap.dedent("""
            from mirror_connect.connectors.policies import TopicFilter
            VALUE = 3
            class Good(TopicFilter):
                def should_replicate_topic(self, topic): return True
            class Bare:
                def should_replicate_topic(self, topic): return True
            class Outer:
                class Inner(Bare): pass
            class Empty: pass
            class Abstract(TopicFilter): pass
            class Raising(Bare):
                def __init__(self, config): self.region = config["region"]
            class Narrow:
                def should_replicate_topic(self): return True
        """)
    )
    found = class_problem(SETTING, {SETTING: text}, LIMITS)
    assert found is None if problem is None else (found or "").startswith(problem)


def test_making_a_class_has_its_limit(folder: Path) -> None:
    (folder / "mine.py").write_text("while True: pass\n")
    found = class_problem(SETTING, {SETTING: "python:mine:Mine"}, replace(LIMITS, start_s=0.5))
    assert found == "making it takes more than 0.5 s of processor time"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that this Python finds outside of plugin.path; importing it leaves the file `imported` beside it."""
    (tmp_path / "plugins").mkdir()
    package = tmp_path / "elsewhere" / "acme"
    package.mkdir(parents=True)
    text = "class Mine:\n    def should_replicate_topic(self, topic): return True\n"
    (package / "__init__.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w').close()\n{text}")
    (package / "filters.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path / "plugins"))
    monkeypatch.delenv(PLUGIN_MODULES, raising=False)
    return tmp_path


@pytest.mark.parametrize("module", ["acme", "acme.filters", "antigravity", "this", "json.tool"])
@pytest.mark.parametrize("modules", [None, "", "acm", "acme.filters.more", "acme_filters"])
def test_a_module_that_is_merely_installed_is_not_even_imported(
    installed: Path, monkeypatch: pytest.MonkeyPatch, module: str, modules: str | None
) -> None:
    if modules is not None:
        monkeypatch.setenv(PLUGIN_MODULES, modules)
    said = class_problem(SETTING, {SETTING: f"python:{module}:Mine"}, LIMITS)
    assert said == (
        f"there is no module {module.partition('.')[0]} in a directory of the worker's plugin.path: "
        "put it there, or name it in plugin.modules"
    )
    assert not (installed / "imported").exists()


@pytest.mark.parametrize("modules", ["acme", "other,acme", "acme.filters", "*"])
def test_a_module_that_the_worker_names_may_lie_anywhere(
    installed: Path, monkeypatch: pytest.MonkeyPatch, modules: str
) -> None:
    monkeypatch.setenv(PLUGIN_MODULES, modules)
    assert class_problem(SETTING, {SETTING: "python:acme.filters:Mine"}, LIMITS) is None


@pytest.mark.parametrize("form", ["module", "package", "namespace", "link"])
def test_modules_of_every_form_are_found_in_plugin_path(folder: Path, form: str) -> None:
    text = "class Mine:\n    def should_replicate_topic(self, topic): return True\n"
    files = {"module": "mine.py", "package": "mine/__init__.py", "namespace": "mine/inner.py", "link": "real/mine.py"}
    (folder / files[form]).parent.mkdir(exist_ok=True)
    (folder / files[form]).write_text(text)
    if form == "link":
        os.symlink(folder / files[form], folder / "mine.py")
    name = "mine.inner" if form == "namespace" else "mine"
    assert class_problem(SETTING, {SETTING: f"python:{name}:Mine"}, LIMITS) is None


def test_a_class_has_few_files_and_no_endless_processor_time(made: Make) -> None:
    above = "import resource"
    body = (
        "return [resource.getrlimit(each)[1] for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)] == [256, 3600]"
    )
    assert ask(made(body, above=above), "a") == [True]


HIDDEN = """
import subprocess, sys
if sys.argv[1] == "hide":
    from mirror_connect.connectors.user_code.hidden_memory import hide_memory
    hide_memory()
look = "import os, sys; print(len(open(f'/proc/{os.getppid()}/environ', 'rb').read()) > 0)"
print(subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout.strip())
"""


def as_any_user() -> None:
    """Who is root may read everything: not without capabilities (PR_CAPBSET_DROP), as other users have none."""
    for capability in range(64):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc here")
@pytest.mark.parametrize(("how", "seen"), [("hide", ""), ("show", "True")])
def test_a_childs_look_into_its_parents_memory_is_refused(how: str, seen: str) -> None:
    command = [sys.executable, "-c", HIDDEN, how]
    told = subprocess.run(command, preexec_fn=as_any_user, capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == seen
