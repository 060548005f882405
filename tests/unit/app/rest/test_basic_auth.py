"""Who may ask: jaas file, users file, credentials."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from mirror_connect.app.config.rest_extension import EXTENSION
from mirror_connect.app.errors import ConnectError, StartupError, Unauthorized
from mirror_connect.app.rest.basic_auth import LOGIN_MODULE, UsersFile, authenticators


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def environment(folder: Path, jaas: str | None = None, users: str | None = "admin: s3cret\n") -> dict[str, str]:
    users_file, jaas_file = folder / "users.properties", folder / "connect jaas.conf"
    if users is not None:
        users_file.write_text(users)
    jaas_file.write_text(
        jaas or f'// who may ask\nKafkaConnect {{\n  {LOGIN_MODULE} required\n  file="{users_file}";\n}};\n'
    )
    return {"KAFKA_OPTS": f"-Xmx1g '-Djava.security.auth.login.config={jaas_file}' -Dother=1"}


def test_a_user_of_the_file_may_ask(tmp_path: Path) -> None:
    (authenticator,) = authenticators([EXTENSION], environment(tmp_path))
    authenticator.check(basic("admin", "s3cret"))


@pytest.mark.parametrize(
    "users", ["admin=s3cret", "admin : s3cret", "# all\nadmin s3cret\n", "a\\u0064min:s3cr\\\n  et"]
)
def test_the_users_file_is_a_properties_file(tmp_path: Path, users: str) -> None:
    (authenticator,) = authenticators([EXTENSION], environment(tmp_path, users=users))
    authenticator.check(basic("admin", "s3cret"))


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param(None, id="none"),
        pytest.param(basic("admin", "nope"), id="wrong_password"),
        pytest.param(basic("admin", ""), id="empty_password"),
        pytest.param(basic("nobody", "s3cret"), id="unknown_name"),
        pytest.param(basic("admin", "s3cret "), id="blank_behind"),
        pytest.param("Basic " + base64.b64encode(b"admin").decode(), id="no_colon"),
        pytest.param("Basic " + base64.b64encode(b":s3cret").decode(), id="no_name"),
        pytest.param("Bearer abc", id="another_scheme"),
        pytest.param("Basic", id="scheme_alone"),
        pytest.param("", id="empty"),
    ],
)
def test_anyone_else_may_not(authorization: str | None) -> None:
    with pytest.raises(Unauthorized):
        UsersFile({"admin": "s3cret"}).check(authorization)


def test_the_case_of_the_scheme_does_not_matter() -> None:
    UsersFile({"a": "b"}).check(basic("a", "b").replace("Basic", "bASIC"))


def test_a_password_may_hold_colons_and_any_letters() -> None:
    UsersFile({"a": "b:\u00fc:\u2603"}).check(basic("a", "b:\u00fc:\u2603"))


@pytest.mark.parametrize("encoded", ["!!!", "YWRtaW4=====", "A"])
def test_broken_base64_is_an_error_and_lets_nobody_in(encoded: str) -> None:
    with pytest.raises(ConnectError) as caught:
        UsersFile({"admin": "s3cret"}).check(f"Basic {encoded}")
    assert caught.value.status in (401, 500)


def test_an_empty_users_file_lets_everybody_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (authenticator,) = authenticators([EXTENSION], environment(tmp_path, users=""))
    authenticator.check(None)
    assert "everybody may use" in caplog.text


def test_without_a_jaas_file_the_error_tells_how_to_name_one() -> None:
    with pytest.raises(StartupError, match="KAFKA_OPTS"):
        authenticators([EXTENSION], {"KAFKA_OPTS": "-Xmx1g"})


def test_a_missing_jaas_file_is_named() -> None:
    with pytest.raises(StartupError, match=r"/nowhere/jaas\.conf can't be read: No such file"):
        authenticators([EXTENSION], {"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere/jaas.conf"})


def test_a_missing_users_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"users\.properties can't be read: No such file"):
        authenticators([EXTENSION], environment(tmp_path, users=None))


@pytest.mark.parametrize(
    "jaas",
    [
        pytest.param("KafkaConnect {", id="broken_off"),
        pytest.param(f"Other {{ {LOGIN_MODULE} required file=x; }};", id="no_section"),
        pytest.param("KafkaConnect { com.example.Module required; };", id="another_module"),
        pytest.param(f"KafkaConnect {{ {LOGIN_MODULE} required; }};", id="no_file"),
        pytest.param("KafkaConnect { };", id="no_module"),
    ],
)
def test_a_jaas_file_that_does_not_fit_is_named(tmp_path: Path, jaas: str) -> None:
    with pytest.raises(StartupError, match=r"connect jaas\.conf"):
        authenticators([EXTENSION], environment(tmp_path, jaas))


def test_the_last_of_several_jaas_files_counts(tmp_path: Path) -> None:
    named = environment(tmp_path)["KAFKA_OPTS"]
    opts = f"-Djava.security.auth.login.config=/nowhere {named}"
    assert len(authenticators([EXTENSION], {"KAFKA_OPTS": opts})) == 1
