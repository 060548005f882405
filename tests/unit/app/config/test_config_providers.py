from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from mirror_connect.app.config.config_providers import LOGGED_LINES, MEND, Resolver, resolve_own
from mirror_connect.connectors.config.bounded_file import UNREADABLE
from mirror_connect.connectors.errors import ConfigError

FILE = "org.apache.kafka.common.config.provider.FileConfigProvider"
DIRECTORY = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
ENVIRONMENT = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    file = tmp_path / "kafka.properties"
    file.write_text("user=connect\npassword=geheim-é\nnested=${env:A}\n", "utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "token").write_text("t0ken\n")
    return file


def resolver(**parameters: str) -> Resolver:
    given = {
        f"config.providers.{name.replace('__', '.param.').replace('_', '.')}": value
        for name, value in parameters.items()
    }
    properties = {
        "config.providers": "file, dir,env",
        "config.providers.file.class": FILE,
        "config.providers.dir.class": DIRECTORY,
        "config.providers.env.class": ENVIRONMENT,
        **given,
    }
    return Resolver.of(properties, {"A": "1", "B": "2"})


# Each of these was given to Kafka's own ConfigTransformer (4.3.1), with this outcome.
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("${file:{}:user}/${file:{}:password}", "connect/geheim-é", id="two_in_one_value"),
        pytest.param("${file:{}:none}", "${file:{}:none}", id="a_missing_key_stays"),
        pytest.param("${file:{}:nested}", "${env:A}", id="resolved_text_is_not_resolved_again"),
        pytest.param("${env:A}-${env::B}", "1-2", id="environment_without_a_path"),
        pytest.param("${env:NONE}", "${env:NONE}", id="a_missing_variable_stays"),
        pytest.param("${other:x:y}", "${other:x:y}", id="an_unknown_provider_stays"),
        pytest.param("${file:user}", "${file:user}", id="a_file_without_a_path_has_nothing"),
        pytest.param("${ env:A}", "${ env:A}", id="blanks_count"),
        pytest.param("$${env:A}", "$1", id="there_is_no_escape"),
        pytest.param("a${", "a${", id="an_unfinished_one_is_text"),
    ],
)
def test_references_resolve_as_kafka_resolves_them(secrets: Path, written: str, expected: str) -> None:
    config = {"k": written.replace("{}", str(secrets))}
    assert resolver().resolve(config) == {"k": expected.replace("{}", str(secrets))}


def test_a_directory_gives_each_file_as_one_value(secrets: Path) -> None:
    assert resolver().resolve({"k": f"${{dir:{secrets.parent}/folder:token}}"}) == {"k": "t0ken\n"}


def test_a_directorys_key_can_not_climb_out_of_it(secrets: Path) -> None:
    reference = f"${{dir:{secrets.parent}/folder:../kafka.properties}}"
    assert resolver().resolve({"k": reference}) == {"k": reference}


def test_an_unreadable_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^Could not read properties from file {tmp_path}/none: {UNREADABLE}"):
        resolver().resolve({"k": f"${{file:{tmp_path}/none:a}}"})


def test_a_file_that_is_not_there_is_told_with_what_refers_to_it(tmp_path: Path) -> None:
    gone = f"${{file:{tmp_path}/none:a}}"
    with pytest.raises(ConfigError, match=rf"none: {UNREADABLE} \(user, password refer to it\)$"):
        resolver().resolve({"user": f"x{gone}", "password": gone, "topics": "t"})


def test_a_worker_is_told_why_its_own_file_can_not_be_read_and_what_refers_to_it(tmp_path: Path) -> None:
    provider = {"config.providers": "file", "config.providers.file.class": FILE}
    gone = f"${{file:{tmp_path}/none:a}}"
    with pytest.raises(ConfigError) as caught:
        resolve_own({**provider, "user": gone, "password": gone})
    assert (
        str(caught.value) == f"{tmp_path}/none can't be read: there is no such file. user, password refer to it: {MEND}"
    )


def test_a_file_that_is_no_utf_8_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "l").write_bytes(b"a=\xe9")
    with pytest.raises(ConfigError, match=f"{tmp_path}/l: it isn't UTF-8"):
        resolver().resolve({"k": f"${{file:{tmp_path}/l:a}}"})


def test_a_path_for_the_environment_is_an_error() -> None:
    with pytest.raises(ConfigError, match="Path is not supported for EnvVarConfigProvider"):
        resolver().resolve({"k": "${env:p:A}"})


@pytest.mark.parametrize("climb", ["{}/kafka.properties", "{}/folder/../kafka.properties"])
def test_a_file_outside_the_allowed_paths_is_not_read(secrets: Path, climb: str) -> None:
    limited = resolver(file__allowed_paths=f"{secrets.parent}/folder")
    reference = f"${{file:{climb.replace('{}', str(secrets.parent))}:user}}"
    assert limited.resolve({"k": reference}) == {"k": reference}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "reference",
    ["${file:/dev/zero:a}", "${file:{}/pipe:a}", "${file:{}:a}", "${file:{}/large:a}", "${file:/proc/self/environ:A}"],
)
def test_a_provider_reads_regular_files_of_a_mebibyte_at_most(tmp_path: Path, reference: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(
        ConfigError, match=rf"^Could not read properties from file \S+: {UNREADABLE} \(k refers to it\)$"
    ):
        resolver().resolve({"k": reference.replace("{}", str(tmp_path))})


@pytest.mark.timeout(60)
def test_a_file_of_a_directory_is_no_larger_than_a_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(ConfigError, match=f"^Could not read file {tmp_path}/large: {UNREADABLE}"):
        resolver().resolve({"k": f"${{dir:{tmp_path}:large}}"})


@pytest.mark.parametrize("path", ["allowed/link/../kafka.properties", "allowed/out/kafka.properties", "allowed/direct"])
@pytest.mark.parametrize("provider", ["file", "dir"])
def test_allowed_paths_are_not_got_round_by_links(secrets: Path, path: str, provider: str) -> None:
    # Kafka (AllowedPaths) works `..` out first and opens the result, but follows links.
    base = secrets.parent
    (base / "allowed").mkdir()
    os.symlink(base / "folder", base / "allowed" / "link")
    os.symlink(base, base / "allowed" / "out")
    os.symlink(secrets, base / "allowed" / "direct")
    limited = resolver(file__allowed_paths=f"{base}/allowed", dir__allowed_paths=f"{base}/allowed")
    folder, _, name = path.rpartition("/")
    written = f"${{file:{base}/{path}:user}}" if provider == "file" else f"${{dir:{base}/{folder}:{name}}}"
    try:
        found = limited.resolve({"k": written})["k"]
    except ConfigError as error:  # `allowed/kafka.properties`, which is what Kafka opens, isn't there
        found = str(error)
    assert "connect" not in found.replace("mirror_connect", "")
    assert "geheim" not in found


def test_secrets_as_kubernetes_mounts_them_are_read_within_allowed_paths(secrets: Path) -> None:
    base = secrets.parent / "mounted"
    (base / "..2026_11_22").mkdir(parents=True)
    (base / "..2026_11_22" / "token").write_text("t0ken")
    os.symlink("..2026_11_22", base / "..data")
    os.symlink("..data/token", base / "token")
    os.symlink(base, secrets.parent / "by_link")
    for allowed in (base, secrets.parent / "by_link"):
        limited = resolver(dir__allowed_paths=str(allowed))
        assert limited.resolve({"k": f"${{dir:{allowed}:token}}"}) == {"k": "t0ken"}


def test_a_file_inside_the_allowed_paths_is_read(secrets: Path) -> None:
    limited = resolver(file__allowed_paths=f"{secrets.parent}/folder , {secrets.parent}")
    assert limited.resolve({"k": f"${{file:{secrets}:user}}"}) == {"k": "connect"}


# The system refuses to look there, as into a folder of another user.
NOT_TO_BE_SEEN = "/" + "x" * 300


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("relative", "is not absolute"),
        ("/nowhere-at-all", "does not exist"),
        (NOT_TO_BE_SEEN, "does not exist"),
    ],
)
def test_a_wrong_allowed_path_is_refused(path: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"Path {path} {reason}"):
        resolver(file__allowed_paths=path)


@pytest.mark.parametrize("reference", ["${dir:" + NOT_TO_BE_SEEN + ":k}", "${dir:/etc:" + "x" * 300 + "}"])
def test_a_directory_that_can_not_be_looked_into_leaves_its_references(reference: str) -> None:
    assert resolver().resolve({"k": reference}) == {"k": reference}


def test_only_variables_that_match_the_allowlist_resolve() -> None:
    limited = Resolver.of(
        {
            "config.providers": "env",
            "config.providers.env.class": ENVIRONMENT,
            "config.providers.env.param.allowlist.pattern": "A",
        },
        {"A": "1", "AB": "2"},
    )
    assert limited.resolve({"k": "${env:A}${env:AB}"}) == {"k": "1${env:AB}"}


def test_a_provider_of_an_unknown_class_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"org\.example\.Vault for configuration config\.providers\.v\.class"):
        Resolver.of({"config.providers": "v", "config.providers.v.class": "org.example.Vault"})


def test_a_resolved_config_knows_what_was_written(secrets: Path) -> None:
    written = {"a": f"${{file:{secrets}:user}}", "b": "plain"}
    resolved = resolver().resolve_with_origin(written)
    assert [resolved.as_written["a"], resolved.referenced("a"), resolved.referenced("b")] == [written["a"], True, False]


def test_secrets_of_a_resolved_config_are_passwords_and_no_user_names(secrets: Path) -> None:
    jaas = f'X required username="${{file:{secrets}:user}}" password="${{file:{secrets}:password}}";'
    assert resolver().resolve_with_origin({"sasl.jaas.config": jaas}).secrets() == {"geheim-é"}


def test_whoever_hides_secrets_is_told_of_those_in_every_config_that_is_resolved(secrets: Path) -> None:
    told: set[str] = set()
    providers = resolver()
    providers.report_secrets_to(lambda secrets, _: told.update(secrets))
    providers.resolve({"ssl.key.password": f"${{file:{secrets}:password}}", "client.id": f"${{file:{secrets}:user}}"})
    assert told == {"geheim-é"}


def test_a_resolved_config_shows_no_values(secrets: Path) -> None:
    resolved = resolver().resolve_with_origin({"ssl.key.password": f"${{file:{secrets}:password}}"})
    assert "geheim" not in repr(resolved)


def test_a_worker_is_told_of_references_that_lead_to_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        resolve_own({"config.providers": "env", "config.providers.env.class": ENVIRONMENT, "a": "${env:NONE}"}, {})
    assert "a: the reference ${env:NONE} has no value" in caplog.text


def test_an_undeclared_provider_is_named_once_with_the_property(caplog: pytest.LogCaptureFixture) -> None:
    providers = resolver()
    for _ in range(2):
        providers.resolve({"sasl.jaas.config": "${fil:/s:hunter2}"})
    assert caplog.messages == [
        "sasl.jaas.config: ${fil:…} stays as text, there is no config provider fil (there are: dir, env, file)"
    ]


def test_lines_that_were_logged_take_no_memory_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    providers = resolver()
    for number in range(2 * LOGGED_LINES):
        providers.preview({"often": "${env:NONE}", f"k{number}": "${env:NONE}"})
    assert len(providers._logged) == LOGGED_LINES
    assert (len(caplog.messages), sum("often" in line for line in caplog.messages)) == (2 * LOGGED_LINES + 1, 1)


@pytest.mark.parametrize("warnings", [True, False])
def test_a_caller_that_tells_by_itself_gets_no_lines_in_the_log(
    caplog: pytest.LogCaptureFixture, warnings: bool
) -> None:
    resolve_own({"config.providers": "a", "x": "${a:k}", "y": "${b:k}"}, {}, warnings=warnings)
    assert [line.partition(":")[0] for line in caplog.messages] == (
        ["config.providers names a, but config.providers.a.class isn't set", "x", "y"] if warnings else []
    )


def test_a_key_that_is_not_there_is_named(caplog: pytest.LogCaptureFixture) -> None:
    resolver().resolve({"client.id": "${env:NONE}"})
    assert caplog.messages == [
        "client.id: the reference ${env:NONE} has no value and stays as text: there is no variable NONE that the provider "
        "may read"
    ]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        pytest.param("${fil:/s:hunter2}", "there is no config provider fil (there are: dir, env, file)", id="provider"),
        pytest.param("x${file:{}/kafka.properties:none}", "there is no key none in {}/kafka.properties that", id="key"),
        pytest.param("${file:/etc/passwd:root}", "/etc/passwd is not under the provider's allowed.paths", id="outside"),
        pytest.param("${file:user}", "it names no file", id="no_path"),
        pytest.param("${dir:{}/folder:none}", "there is no file none in {}/folder that", id="file"),
        pytest.param("${dir:{}/none:token}", "there is no file token in {}/none that", id="directory"),
        pytest.param("${dir:token}", "it names no directory", id="no_directory"),
        pytest.param("${env:NONE}", "there is no variable NONE that the provider may read", id="variable"),
    ],
)
def test_why_a_reference_has_no_value_is_told_and_nothing_of_a_value(secrets: Path, written: str, reason: str) -> None:
    folder = str(secrets.parent)
    providers = resolver(file__allowed_paths=folder)
    text = written.replace("{}", folder)
    found = providers.explained({"k": text, "good": f"${{file:{secrets}:password}}"})
    assert found.values == {"k": text, "good": "geheim-é"}
    assert list(found.unresolved) == ["k"]
    assert found.unresolved["k"].startswith(reason.replace("{}", folder))
    assert not any(secret in repr(found) for secret in ("hunter2", "geheim"))


def test_braces_that_are_no_reference_are_nothing_to_speak_of(caplog: pytest.LogCaptureFixture) -> None:
    resolver().resolve({"topics": "${1:-x}|${}|${a}|$:"})
    assert caplog.messages == []
