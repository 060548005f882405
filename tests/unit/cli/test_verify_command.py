"""The command's arguments and exit codes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import pytest
import typer
from typer.testing import CliRunner

from mirror_connect.cli import verify_command
from mirror_connect.cli.verify_command import application, bytes_per_second, moment
from mirror_connect.verify.findings import Findings
from mirror_connect.verify.link import Link, described_link
from mirror_connect.verify.plan import Job
from mirror_connect.verify.run import EQUAL, Options, Report, Result
from mirror_connect.verify.sampling import SamplingOptions

JOB = Job("orders", 3, "A.orders", 0, 100, 100, 0, 100)


def report(findings: Findings) -> Report:
    return Report("m", [Result(JOB, findings)], seconds=2.0)


@pytest.mark.parametrize(
    ("text", "number"), [("50MB/s", 50e6), ("8MiB", 8 << 20), ("1000", 1000), ("1.5 kb/s", 1500), ("1G", 1e9)]
)
def test_rates_are_read(text: str, number: float) -> None:
    assert bytes_per_second(text) == number


@pytest.mark.parametrize("text", ["", "fast", "0", "-1MB", "5 TB"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        bytes_per_second(text)


@pytest.mark.parametrize(
    "text", ["2026-11-21T08:00:00Z", "2026-11-21T08:00:00", "2026-11-21T09:00:00+01:00", "1795248000000"]
)
def test_times_are_read(text: str) -> None:
    assert moment(text) == 1795248000000


@pytest.mark.parametrize("text", ["²", "9" * 5000, "today", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        moment(text)


@pytest.mark.parametrize(
    ("level", "bug", "said"),
    [
        pytest.param(
            "TRACE",
            False,
            "mirror-connect: Invalid value TRACE for configuration MIRROR_CONNECT_LOG_LEVEL: "
            "it has to be one of DEBUG, INFO, WARNING, ERROR, CRITICAL",
            id="an_unknown_level",
        ),
        pytest.param(
            "ERROR", True, "mirror-connect: verify ended because of an unexpected error, KeyError", id="a_bug"
        ),
    ],
)
def test_whatever_else_goes_wrong_is_2_and_not_different(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], level: str, bug: bool, said: str
) -> None:
    def properties(*_: object) -> NoReturn:
        raise KeyError

    if bug:
        monkeypatch.setattr(verify_command, "_properties", properties)
    monkeypatch.setenv("MIRROR_CONNECT_LOG_LEVEL", level)
    monkeypatch.setattr(sys, "argv", ["verify", "--source", "s", "--target", "t", "--source-alias", "A"])
    with pytest.raises(SystemExit) as ended:
        verify_command.main()
    assert (ended.value.code, capsys.readouterr().err.splitlines()[-1]) == (2, said)


def test_without_connector_both_clusters_are_needed() -> None:
    done = CliRunner().invoke(application, ["verify"])
    assert done.exit_code == 2
    assert "give both --source and --target" in done.output


def test_a_file_that_is_not_there_is_one_line_and_code_2(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.properties")
    done = CliRunner().invoke(application, ["verify", "--source", missing, "--target", missing, "--source-alias", "A"])
    assert done.exit_code == 2
    assert (
        done.stderr
        == f"mirror-connect: Could not read the source cluster's properties {missing}: No such file or directory\n"
    )


FILES = ("verify", "--source", "none.properties", "--target", "none.properties")


def test_without_connector_the_alias_is_needed_that_names_remote_topics() -> None:
    done = CliRunner().invoke(application, [*FILES])
    assert (done.exit_code, "give --source-alias" in done.output) == (2, True)


def test_where_topics_keep_their_names_no_alias_is_needed() -> None:
    assert "Could not read" in CliRunner().invoke(application, [*FILES, "--policy", "identity"]).stderr


def test_a_password_is_taken_from_the_environment_or_a_terminal_only() -> None:
    done = CliRunner().invoke(application, ["verify", "m", "--user", "me"])
    assert done.exit_code == 2
    assert "set MIRROR_CONNECT_PASSWORD" in done.stderr


@pytest.mark.parametrize("strict", [False, True])
def test_whether_repeats_are_faults_is_handed_on(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bool] = []

    async def compare(_link: Link, options: Options, _watcher: object) -> Report:
        heard.append(options.strict)
        return report(Findings(equal=100))

    async def verify_samples(_link: Link, _positions: object, options: SamplingOptions, **_: object) -> int:
        heard.append(options.strict)
        return EQUAL

    async def of_connector(*_: object) -> Link:
        nobody = {"bootstrap.servers": "127.0.0.1:1"}
        return described_link(source=nobody, target=nobody, settings={"source.cluster.alias": "A"})

    for name, fake in (("compare", compare), ("verify_samples", verify_samples), ("_of_connector", of_connector)):
        monkeypatch.setattr(verify_command, name, fake)
    for more in ((), ("--follow",)):
        done = CliRunner().invoke(application, ["verify", "m", *more, *(["--strict"] if strict else [])])
        assert done.exit_code == EQUAL, done.output
    assert heard == [strict, strict]
