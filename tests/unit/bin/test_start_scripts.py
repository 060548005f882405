"""The start scripts in bin/ have the manners of Kafka's: run here with a Python that only writes down what it is given."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.paths import ROOT
from tests.waiting import wait_for_state

COMMON: Final = "mirror-connect-start.sh"
# Script → what follows [-daemon] in Kafka's usage line, its name there, the module that it runs.
SCRIPTS: Final = {
    "connect-distributed.sh": ("connect-distributed.properties", "connectDistributed", "mirror_connect.app"),
    # Kafka's has neither a usage line nor -daemon of its own.
    "kafka-mirror-maker.sh": (
        "--consumer.config FILE --producer.config FILE --include REGEX",
        "mirror-maker",
        "mirror_connect.app.mirror_maker",
    ),
    "connect-standalone.sh": (
        "connect-standalone.properties [connector1.properties connector2.json ...]",
        "connectStandalone",
        "mirror_connect.app.standalone",
    ),
    "connect-mirror-maker.sh": ("mm2.properties", "mirrorMaker", "mirror_connect.app.dedicated"),
}
TELLS: Final = '#!/bin/sh\necho "$@"\necho "$$" >&2\nexit 7\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A checkout with the scripts, in a folder whose name has a space, and a Python that prints its arguments."""
    home = tmp_path / "a checkout"
    shutil.copytree(ROOT / "bin", home / "bin")
    (home / "pyproject.toml").touch()
    _python(home / ".venv" / "bin")
    return home


def _python(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "python"
    python.write_text(TELLS)
    python.chmod(0o755)


def _run(
    script: Path, *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"EXTRA_ARGS", "LOG_DIR"}}
    return subprocess.run(
        [script, *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        cwd=cwd,
    )


def test_every_script_is_tested_here() -> None:
    assert {each.name for each in (ROOT / "bin").iterdir()} == {*SCRIPTS, COMMON}


def test_the_package_has_every_script() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    installed = project["tool"]["setuptools"]["script-files"]
    assert sorted(installed) == sorted(f"bin/{each.name}" for each in (ROOT / "bin").iterdir())


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_scripts_may_be_run(script: str) -> None:
    assert (ROOT / "bin" / script).stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("arguments", [(), ("-daemon",)], ids=["alone", "with_an_option"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_without_a_file_there_is_kafkas_usage_line(home: Path, script: str, arguments: tuple[str, ...]) -> None:
    path = home / "bin" / script
    done = _run(path, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (1, f"USAGE: {path} [-daemon] {SCRIPTS[script][0]}\n", "")


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_runs_in_the_scripts_own_process_and_its_exit_code_is_the_scripts(home: Path, script: str) -> None:
    process = subprocess.Popen(
        [home / "bin" / script, "a file", "b"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    out, error = process.communicate(timeout=20)
    assert (process.returncode, out, error) == (7, f"-P -m {SCRIPTS[script][2]} a file b\n", f"{process.pid}\n")


@pytest.mark.parametrize("script", SCRIPTS)
def test_no_module_comes_from_the_directory_where_the_user_is(home: Path, tmp_path: Path, script: str) -> None:
    python = home / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    here = tmp_path / "here"
    here.mkdir()
    (here / "uvloop.py").write_text("raise SystemExit(99)\n")
    done = _run(home / "bin" / script, "no-file", cwd=here)
    assert done.returncode == 2, done.stderr


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_it_may_be_started_by_any_shell(home: Path, script: str, shell: str) -> None:
    done = subprocess.run(
        [shell, f"bin/{script}", "a file"], capture_output=True, text=True, timeout=20, check=False, cwd=home
    )
    assert (done.returncode, done.stdout) == (7, f"-P -m {SCRIPTS[script][2]} a file\n"), done.stderr


def test_a_link_to_a_script_finds_its_checkout(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "linked.sh"
    link.symlink_to(home / "bin" / "connect-distributed.sh")
    assert _run(link, "f").stdout == "-P -m mirror_connect.app f\n"


def test_without_its_environment_a_checkout_says_how_to_make_it(home: Path) -> None:
    shutil.rmtree(home / ".venv")
    done = _run(home / "bin" / "connect-distributed.sh", "f")
    assert (done.returncode, "run make setup first" in done.stderr) == (1, True)


def test_installed_it_uses_the_environment_that_it_is_in(home: Path, tmp_path: Path) -> None:
    installed = tmp_path / "environment" / "bin"
    shutil.copytree(home / "bin", installed)
    _python(installed)
    assert _run(installed / "connect-distributed.sh", "f").stdout == "-P -m mirror_connect.app f\n"


def test_installed_without_an_environment_it_uses_the_python_of_the_command(home: Path, tmp_path: Path) -> None:
    installed = tmp_path / "usr" / "bin"
    shutil.copytree(home / "bin", installed)
    _python(tmp_path)
    (installed / "mirror-connect").write_text(f"#!{tmp_path}/python\nimport sys\n")
    assert _run(installed / "connect-distributed.sh", "f").stdout == "-P -m mirror_connect.app f\n"


# In the background.


@pytest.mark.parametrize("script", SCRIPTS)
def test_in_the_background_its_output_goes_to_the_log_directory(home: Path, tmp_path: Path, script: str) -> None:
    log = tmp_path / "logs" / f"{SCRIPTS[script][1]}.out"
    done = _run(home / "bin" / script, "-daemon", "f", LOG_DIR=str(log.parent))
    _wait_text(log, f"-P -m {SCRIPTS[script][2]} f\n")
    # The file's second line is the process id.
    _wait_text(log, "f\n" + (pid := _process_id(done.stdout)) + "\n")
    told = f"{SCRIPTS[script][1]} starts in the background as process {pid}; its log is {log}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")


def test_without_a_log_directory_it_is_beside_bin(home: Path) -> None:
    _run(home / "bin" / "connect-distributed.sh", "-daemon", "f")
    _wait_text(home / "logs" / "connectDistributed.out", "-P -m mirror_connect.app f\n")


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        pytest.param("-name other", ("-daemon", "f"), id="as_kafkas_scripts_take_it"),
        pytest.param("-daemon -name other", ("f",), id="all_in_the_variable"),
        pytest.param("-name first", ("-daemon", "-name", "other", "f"), id="an_option_wins"),
        pytest.param("", ("-name", "other", "-daemon", "f"), id="options_alone"),
    ],
)
def test_a_name_names_the_file_of_the_output(home: Path, extra: str, arguments: tuple[str, ...]) -> None:
    done = _run(home / "bin" / "connect-distributed.sh", *arguments, EXTRA_ARGS=extra)
    assert done.returncode == 0, done.stderr
    _wait_text(home / "logs" / "other.out", "-P -m mirror_connect.app f\n")


def test_it_returns_while_the_process_runs_which_ignores_that_its_terminal_goes(home: Path, tmp_path: Path) -> None:
    end = tmp_path / "end"
    _tells = f'#!/bin/sh\nkill -HUP $$\nwhile [ ! -e "{end}" ]; do sleep 0.05; done\necho ended\n'
    (home / ".venv" / "bin" / "python").write_text(_tells)
    assert _run(home / "bin" / "connect-distributed.sh", "-daemon", "f").returncode == 0
    log = home / "logs" / "connectDistributed.out"
    assert log.read_text() == ""
    end.touch()
    _wait_text(log, "ended\n")


def test_two_with_one_log_do_not_overwrite_each_others_lines(home: Path, tmp_path: Path) -> None:
    end = tmp_path / "end"
    _tells = f'#!/bin/sh\necho "$$ begins"\nwhile [ ! -e "{end}" ]; do sleep 0.05; done\necho "$$ ends"\n'
    (home / ".venv" / "bin" / "python").write_text(_tells)
    log = home / "logs" / "connectDistributed.out"
    ids = []
    for _ in range(2):
        ids.append(_process_id(_run(home / "bin" / "connect-distributed.sh", "-daemon", "f").stdout))
        _wait_text(log, f"{ids[-1]} begins\n")
    end.touch()
    for each in ids:
        _wait_text(log, f"{each} ends\n")
    # The second start has emptied the file.
    assert sorted(log.read_text().splitlines()) == sorted([f"{ids[1]} begins", *(f"{each} ends" for each in ids)])


def test_a_log_directory_that_cannot_be_made_is_named(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = _run(home / "bin" / "connect-distributed.sh", "-daemon", "f", LOG_DIR=f"{tmp_path}/file/logs")
    assert done.returncode == 1
    assert f"{tmp_path}/file/logs/connectDistributed.out" in done.stderr.splitlines()[-1]
    assert "LOG_DIR" in done.stderr.splitlines()[-1]


def test_a_log_of_javas_garbage_collection_is_said_to_have_no_effect(home: Path) -> None:
    done = _run(home / "bin" / "connect-distributed.sh", "f", EXTRA_ARGS="-loggc")
    assert (done.stdout, "-loggc has no effect" in done.stderr) == ("-P -m mirror_connect.app f\n", True)


def _process_id(said: str) -> str:
    found = re.search(r"process (\d+)", said)
    assert found is not None, said
    return found[1]


def _wait_text(file: Path, text: str) -> None:
    wait_for_state(lambda: file.exists() and text in file.read_text(), f"{file} has {text!r}", 20)
