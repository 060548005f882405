"""`mirror-connect`: its commands, their help, versions and wrong usage; and that one command's start imports no other."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import typer

from mirror_connect.app.dedicated.__main__ import arguments_parser
from mirror_connect.app.mirror_maker.options import OPTIONS
from mirror_connect.app.version import API_VERSION
from mirror_connect.check.__main__ import application as check
from mirror_connect.cli.command_row import Command
from mirror_connect.cli.commands import COMMANDS
from mirror_connect.cli.rest import (
    apply_command,
    config_command,
    groups_command,
    lag_command,
    links_command,
    logs_command,
    problems_command,
    state_commands,
    status_command,
    topics_command,
    workers_command,
)
from mirror_connect.cli.rest.arguments import Parser
from mirror_connect.cli.rest.command_run import action_parser, view_parser
from mirror_connect.cli.verify_command import application

VIEWS: dict[str, Any] = {
    "status": status_command,
    "links": links_command,
    "lag": lag_command,
    "topics": topics_command,
    "groups": groups_command,
    "problems": problems_command,
    "workers": workers_command,
}
SCREEN = (24, 80)
GROUPS = {each.group for each in COMMANDS.values() if each.group}


def run(*arguments: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *python, "-m", "mirror_connect.cli.__main__", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_each_help_fits_a_screen(command: str | None) -> None:
    done = run(*filter(None, (command, "--help")))
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0].startswith("usage: mirror-connect")
    assert (len(lines) <= SCREEN[0], [line for line in lines if len(line) > SCREEN[1]]) == (True, []), len(lines)


def test_the_help_lists_every_command() -> None:
    lines = run("--help").stdout.splitlines()
    alone = [row for row in COMMANDS.values() if not row.group]
    width = max(len(row.name) for row in alone) + 2
    assert [row.name for row in alone if f"  {row.name:{width}}{row.summary}" not in lines] == []
    groups = [line[2:].split("  ", 1)[1].strip().split(", ") for line in lines if line[2:].startswith(tuple(GROUPS))]
    assert [name for names in groups for name in names] == [each.name for each in COMMANDS.values() if each.group]


def test_the_version_is_shown() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"mirror-connect {API_VERSION}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("verfy",), ("no command verfy", "verify"), id="a_slip"),
        pytest.param(("dance",), ("no command dance", "--help"), id="no_command"),
        pytest.param(("--verbose",), ("no command --verbose", "--help"), id="no_option"),
        pytest.param(("worker",), ("usage: mirror-connect worker FILE",), id="no_file"),
        pytest.param(("worker", "-foo", "f"), ("there is no option -foo",), id="unknown_option"),
        pytest.param(("worker", "a", "b"), ("usage: mirror-connect worker FILE",), id="two_files"),
        pytest.param(("worker", "/nowhere/worker.properties"), ("/nowhere/worker.properties",), id="a_file_not_there"),
        pytest.param(("mm2",), ("usage: mirror-connect mm2 FILE",), id="no_file_of_dedicated_mode"),
        pytest.param(("mm1",), ("--consumer.config",), id="no_source"),
        pytest.param(("check",), ("usage: mirror-connect check FILE|URL",), id="nothing_to_check"),
        pytest.param(("archive", "f"), ("usage: mirror-connect archive",), id="too_much"),
        pytest.param(("mm2", "/nowhere/mm2.properties"), ("/nowhere/mm2.properties",), id="an_mm2_file_not_there"),
        pytest.param(("verify",), ("--source and --target",), id="no_link"),
        pytest.param(("verify", "--nope"), ("--nope",), id="no_option_of_the_command"),
        pytest.param(("apply",), ("usage: mirror-connect apply FILE",), id="nothing_to_apply"),
        pytest.param(("pause",), ("CONNECTOR",), id="nothing_to_pause"),
        pytest.param(("lag", "--by", "day"), ("mirror-connect lag --help",), id="no_such_choice"),
        pytest.param(("status", "--worker", "http://127.0.0.1:9"), ("127.0.0.1:9 can't be reached",), id="no_worker"),
        pytest.param(("completion", "tcsh"), ("usage: mirror-connect completion bash|zsh|fish",), id="no_shell"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert [word for word in words if word not in done.stderr] == []


def test_without_a_command_the_help_is_shown_and_the_code_is_2() -> None:
    done = run()
    assert (done.returncode, done.stdout, done.stderr) == (2, "", run("--help").stdout)


@pytest.mark.parametrize(
    ("arguments", "loaded", "absent"),
    [
        pytest.param(("--help",), "mirror_connect.cli.commands", ("typer", "fastapi", "mirror_connect.app"), id="help"),
        pytest.param(("completion", "bash"), "mirror_connect.cli.commands", ("typer", "uvloop"), id="completion"),
        pytest.param(
            ("worker", "/nowhere"),
            "mirror_connect.app.config.worker_config",
            ("typer", "rich", "mirror_connect.app.dedicated", "mirror_connect.app.mirror_maker"),
            id="worker",
        ),
        pytest.param(("mm2", "/n"), "mirror_connect.app.foreground", ("typer", "mirror_connect.app.mirror_maker"), id="mm2"),
        pytest.param(("mm1",), "mirror_connect.app.foreground", ("typer", "mirror_connect.app.dedicated"), id="mm1"),
        pytest.param(("verify",), "mirror_connect.verify.link", ("fastapi", "mirror_connect.app.worker"), id="verify"),
        pytest.param(
            ("pause", "a", "--worker", "nope"),
            "mirror_connect.cli.rest.worker_client",
            ("fastapi", "uvloop", "yaml", "confluent_kafka", "mirror_connect.verify", "mirror_connect.app"),
            id="pause",
        ),
        pytest.param(
            ("__words", "contexts"),
            "mirror_connect.cli.rest.contexts",
            ("httpx", "rich", "typer", "mirror_connect.app"),
            id="completion_of_a_name",
        ),
    ],
)  # fmt: skip
def test_a_command_imports_no_other(arguments: tuple[str, ...], loaded: str, absent: tuple[str, ...]) -> None:
    lines = run(*arguments, python=("-X", "importtime")).stderr.splitlines()
    imported = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert (loaded in imported, sorted(imported & set(absent))) == (True, [])


@pytest.mark.parametrize("row", COMMANDS.values(), ids=lambda row: row.name)
def test_every_entry_is_there(row: Command) -> None:
    module, function = row.entry.split(":")
    assert callable(getattr(import_module(module), function))


def test_the_help_of_verify_lists_its_options() -> None:
    command: Any = typer.main.get_command(application)
    names = {name for each in command.commands["verify"].params for name in each.opts if name.startswith("--")}
    assert {f"--{each.name}" for each in COMMANDS["verify"].options} == names | {"--help"}


def test_the_help_of_check_lists_its_options() -> None:
    names = {name for each in typer.main.get_command(check).params for name in each.opts if name.startswith("--")}
    assert {f"--{each.name}" for each in COMMANDS["check"].options} == names | {"--help"}


def test_the_help_of_mm2_lists_its_options() -> None:
    names = {name for each in arguments_parser()._actions for name in each.option_strings if name.startswith("--")}
    assert {f"--{each.name}" for each in COMMANDS["mm2"].options} == names


def test_the_help_of_mm1_lists_the_options_that_have_an_effect_and_those_that_have_none() -> None:
    used = {each.names[0] for each in OPTIONS if not each.idle and not each.refused}
    assert {each.name for each in COMMANDS["mm1"].options} == used
    idle = ", ".join(each.names[0] for each in OPTIONS if each.idle)
    assert f"Accepted, no effect: {idle}." in COMMANDS["mm1"].help


@pytest.mark.parametrize(
    ("command", "parser"),
    [
        *((each, view_parser(each, module.arguments)) for each, module in VIEWS.items()),
        ("config", view_parser("config", config_command.arguments, watched=False)),
        ("logs", view_parser("logs", logs_command.arguments, watched=False)),
        ("apply", action_parser("apply", apply_command.arguments)),
        *((each, action_parser(each, state_commands.arguments)) for each in ("pause", "resume", "stop", "delete")),
        ("restart", action_parser("restart", state_commands.restart_arguments)),
    ],
)
def test_the_help_of_a_command_for_a_worker_lists_its_options(command: str, parser: Parser) -> None:
    names = {name for each in parser._actions for name in each.option_strings if name.startswith("--")}
    assert {f"--{each.name}" for each in COMMANDS[command].options} == names | {"--help"}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--help",), id="all_commands"),
        pytest.param(("verify", "--help"), id="one_command"),
        pytest.param(("completion", "bash"), id="a_command_that_ends_by_itself"),
    ],
)
def test_a_reader_that_has_gone_is_no_error(arguments: tuple[str, ...]) -> None:
    """As `| head` does when it has enough."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mirror_connect.cli.__main__", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
