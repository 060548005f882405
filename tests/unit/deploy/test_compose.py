"""The compose stack: its file has the form of the Compose specification, and everything that it names fits together."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml

from mirror_connect.app.config.properties import read_properties
from mirror_connect.app.config.worker_config import load_worker_config
from mirror_connect.connectors import connector_definition
from tests.paths import FIXTURES, ROOT

STACK: Final = ROOT / "deploy" / "compose"
TEMPLATES: Final = ROOT / "deploy" / "demo" / "templates"
MOUNTED: Final = "/opt/kafka/custom-config"
PASSWORD: Final = re.compile(r'user_(\w+)="([^"]*)"')


def _compose() -> dict[str, Any]:
    text = (STACK / "docker-compose.yaml").read_text("utf-8")
    for name, value in read_properties(STACK / ".env").items():
        text = text.replace(f"${{{name}}}", value)
    assert not re.search(r"(?<!\$)\$\{", text), "a variable that .env does not have"
    found: dict[str, Any] = yaml.safe_load(text)
    return found


COMPOSE: Final = _compose()
SCHEMA: Final = jsonschema_rs.validator_for(json.loads((FIXTURES / "schemas" / "compose-spec.json").read_text("utf-8")))


def test_the_file_has_the_form_of_the_specification() -> None:
    assert [error.message for error in SCHEMA.iter_errors(COMPOSE)] == []


@pytest.mark.parametrize(
    ("where", "wrong"),
    [pytest.param("ports", "8083:8083", id="no_list"), pytest.param("helthcheck", {}, id="a_typo")],
)
def test_the_schema_would_find_a_fault(where: str, wrong: object) -> None:
    broken = json.loads(json.dumps(COMPOSE))
    broken["services"]["connect"][where] = wrong
    assert list(SCHEMA.iter_errors(broken))


def test_every_mounted_file_is_there_and_every_volume_declared() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", ()):
            source, target, *_ = volume.split(":")
            assert target.startswith("/")
            assert source in COMPOSE["volumes"] or (STACK / source).exists(), volume


def test_services_wait_only_for_services_with_a_health_check() -> None:
    for service in COMPOSE["services"].values():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert "healthcheck" in COMPOSE["services"][other]


def test_the_image_is_built_from_this_repositorys_dockerfile() -> None:
    built = COMPOSE["services"]["connect"]["build"]
    assert (STACK / built["context"]).resolve() == ROOT
    assert (ROOT / built["dockerfile"]).is_file()


def test_the_commands_are_shell_scripts_without_a_fault() -> None:
    scripts = [
        service["command"][2].replace("$$", "$") for service in COMPOSE["services"].values() if "command" in service
    ]
    scripts.append((STACK / "connect" / "scripts" / "deploy-connectors.sh").read_text("utf-8"))
    assert len(scripts) == 4
    for script in scripts:
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=20, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """The files of the worker, with the place where they lie here instead of where they are mounted."""
    for file in (STACK / "connect").glob("*.*"):
        (tmp_path / file.name).write_text(file.read_text("utf-8").replace(MOUNTED, str(tmp_path)), "utf-8")
    return tmp_path


def test_the_worker_takes_its_properties(seen: Path) -> None:
    config = load_worker_config(seen / "connect.properties", {})
    assert (config.bootstrap_servers, config.worker_id()) == ("kafka2:39092", "connect:8083")
    assert 'password="connect2-secret"' in config.own_client()["sasl.jaas.config"]


def test_the_connectors_are_accepted_with_their_secrets(seen: Path) -> None:
    resolver = load_worker_config(seen / "connect.properties", {}).resolver
    for file in sorted((STACK / "connect" / "connectors").glob("*.json")):
        given = {name: str(value) for name, value in json.loads(file.read_text("utf-8")).items()}
        config = resolver.resolve({name: value.replace(MOUNTED, str(seen)) for name, value in given.items()})
        definition = connector_definition(config["connector.class"])
        errors = {name: result.errors for name, result in definition.validate({"name": file.stem, **config}).items()}
        assert not any(errors.values()), file
        assert 'password="mirrormaker1-secret"' in config["source.cluster.sasl.jaas.config"]


def test_the_files_are_those_of_make_demo() -> None:
    filled = {"@DIR@": MOUNTED, "@KAFKA1@": "kafka1:39092", "@KAFKA2@": "kafka2:39092"}
    for name in ("kafka.properties", "restapi-jaas.conf", "restapi-users.txt", "connectors"):
        for template in sorted((TEMPLATES / name).glob("*")) or [TEMPLATES / name]:
            text = template.read_text("utf-8")
            for mark, value in filled.items():
                text = text.replace(mark, value)
            assert (STACK / "connect" / template.relative_to(TEMPLATES)).read_text("utf-8") == text


def test_every_login_is_one_that_its_server_knows() -> None:
    brokers = {n: dict(PASSWORD.findall((STACK / "kafka" / f"kafka{n}_server_jaas.conf").read_text())) for n in (1, 2)}
    worker = read_properties(STACK / "connect" / "kafka.properties")
    rest = read_properties(STACK / "connect" / "restapi-users.txt")
    console = COMPOSE["services"]["kafka-ui"]["environment"]
    start = COMPOSE["services"]["connect"]["environment"]
    assert brokers[2][worker["broker.username"]] == worker["broker.password"]
    for n, users in brokers.items():
        assert users[worker["mirrormaker.username"]] == worker[f"mirrormaker{n}.password"]
        assert (
            f'username="kafkaui" password="{users["kafkaui"]}"'
            in (console[f"KAFKA_CLUSTERS_{n - 1}_PROPERTIES_SASL_JAAS_CONFIG"])
        )
    assert rest[start["CONNECT_USERNAME"]] == start["CONNECT_PASSWORD"]
    assert (
        rest[console["KAFKA_CLUSTERS_1_KAFKACONNECT_0_USERNAME"]]
        == (console["KAFKA_CLUSTERS_1_KAFKACONNECT_0_PASSWORD"])
    )
    assert f"health:{rest['health']}" in COMPOSE["services"]["connect"]["healthcheck"]["test"]
