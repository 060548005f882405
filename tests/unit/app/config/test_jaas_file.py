"""The Java login configuration: which file KAFKA_OPTS names, and what a section of it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_connect.app.config.jaas_file import find_jaas_file, login_modules, read_text
from mirror_connect.app.errors import StartupError

OPTION = "-Djava.security.auth.login.config="


@pytest.mark.parametrize(
    ("options", "path"),
    [
        pytest.param(OPTION + "/etc/jaas.conf", "/etc/jaas.conf", id="a_path"),
        pytest.param(OPTION + "=/etc/jaas.conf", "/etc/jaas.conf", id="this_file_alone"),
        pytest.param(OPTION + "file:/etc/jaas.conf", "/etc/jaas.conf", id="a_url"),
        pytest.param(OPTION + "file:///etc/jaas.conf", "/etc/jaas.conf", id="a_url_with_an_empty_host"),
        pytest.param(OPTION + "file:jaas.conf", "file:jaas.conf", id="no_url"),
        pytest.param(f"-Xmx1g '{OPTION}/etc/my jaas.conf'", "/etc/my jaas.conf", id="quoted"),
        pytest.param(f"{OPTION}/first {OPTION}/last", "/last", id="the_last_of_two"),
    ],
)
def test_the_file_is_found_in_kafka_opts(options: str, path: str) -> None:
    assert find_jaas_file({"KAFKA_OPTS": options}) == Path(path)


@pytest.mark.parametrize("environment", [{}, {"KAFKA_OPTS": "-Xmx1g"}, {"KAFKA_OPTS": OPTION}])
def test_no_file_is_named(environment: dict[str, str]) -> None:
    assert find_jaas_file(environment) is None


def test_options_that_cannot_be_read_are_an_error_without_their_text() -> None:
    with pytest.raises(StartupError) as raised:
        find_jaas_file({"KAFKA_OPTS": "-Dpassword='s3cret"})
    assert "KAFKA_OPTS" in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("é".encode(), id="utf_8"),
        pytest.param(b"\xef\xbb\xbf" + "é".encode(), id="utf_8_with_a_mark"),
        pytest.param(b"\xe9", id="latin_1"),
    ],
)
def test_a_text_is_utf_8_or_else_latin_1(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_bytes(content)
    assert read_text(file, "The file") == "é"


def test_a_file_that_is_not_there_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=rf"^The list {tmp_path}/none can't be read: No such file or directory$"):
        read_text(tmp_path / "none", "The list")


def test_the_modules_of_a_section_are_read(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(
        'Other { a.LoginModule optional; };\nKafkaConnect { b.LoginModule required file="/etc/users"; };', "utf-8"
    )
    (module,) = login_modules(file, "KafkaConnect")
    assert (module.class_name, module.options) == ("b.LoginModule", {"file": "/etc/users"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("Other { a.LoginModule required; };", "has no section KafkaConnect; add one", id="no_section"),
        pytest.param('KafkaConnect { a.LoginModule required x="', "is malformed: ", id="malformed"),
    ],
)
def test_a_file_without_the_section_is_refused_with_its_path(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(text, "utf-8")
    with pytest.raises(StartupError, match=f"^The login configuration file {file} {problem}"):
        login_modules(file, "KafkaConnect")
