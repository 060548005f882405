"""A secret of a config provider, named by whatever setting: no answer about a config tells it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mirror_connect.app.config.config_providers import Resolver
from mirror_connect.app.errors import BadRequest, ConnectError, InvalidConfig
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.validation import ConfigRules, Validation
from tests.fakes.connect_worker import FakeWorker, source_config

SECRET = "s3cr3t-V@lue,x"
# Each way takes seconds with each class.
WAYS = ("{}", *(pytest.param(each, marks=pytest.mark.long) for each in ("1{}", "[{}")), "python:a.b:{}")
CLASSES = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
CLIENTS = ("source.cluster.", "target.cluster.", "source.consumer.", "target.producer.", "producer.override.", "admin.")
OF_CLIENTS = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "ssl.keystore.type",
    "bootstrap.servers",
    "acks",
    "batch.size",
    "auto.offset.reset",
    "unknown",
)
OTHERS = (
    "transforms",
    "predicates",
    "connector.plugin.version",
    "key.converter.type",
    "exactly.once.support",
    "x.mine",
)


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().running() as running:
        yield running


@pytest.fixture
def validation(tmp_path: Path) -> Validation:
    (tmp_path / "secrets").write_text(f"secret={SECRET}\n")
    kind = "org.apache.kafka.common.config.provider.FileConfigProvider"
    resolver = Resolver.of({"config.providers": "file", "config.providers.file.class": kind})
    return Validation(resolver, ConfigRules(), ConfigNotices(""))


@pytest.mark.parametrize("written", WAYS)
@pytest.mark.parametrize("class_name", CLASSES)
async def test_no_setting_makes_an_answer_tell_what_a_provider_gave(
    validation: Validation, tmp_path: Path, class_name: str, written: str
) -> None:
    good = {**source_config(), "connector.class": class_name, "name": "a"}
    defined = [each["value"]["name"] for each in (await validation.infos(class_name, good))["configs"]]
    of_clients = [prefix + name for prefix in CLIENTS for name in OF_CLIENTS]
    reference = "${file:%s:secret}" % (tmp_path / "secrets")
    for name in dict.fromkeys((*defined, *of_clients, *OTHERS)):
        config = {**good, name: written.format(reference)}
        for ask in (validation.infos(class_name, config), validation.check(config)):
            try:
                told = json.dumps(await ask)
            except ConnectError as error:
                told = str(error)
            assert (name, SECRET in told) == (name, False)


async def test_a_secret_without_a_value_is_told_with_its_reason(validation: Validation, tmp_path: Path) -> None:
    setting = "spark.transform.secret.salt"
    config = {**source_config(), "name": "a", "spark.transform.sql": "SELECT * FROM records"}
    file = tmp_path / "secrets"
    for reference, reason in (
        ("${fil:/x:hunter2}", "there is no config provider fil (there are: file)"),
        (f"${{file:{file}:none}}", f"there is no key none in {file} that the provider may read"),
    ):
        line = (
            f"Invalid {setting}: its reference has no value, as {reason}: correct the reference, or the config provider"
        )
        with pytest.raises(InvalidConfig) as refused:
            await validation.check({**config, setting: reference})
        assert line in str(refused.value)
        answer = await validation.infos(CLASSES[0], {**config, setting: reference})
        assert [each["value"]["errors"] for each in answer["configs"] if each["value"]["name"] == setting] == [[line]]
        assert not any(secret in f"{refused.value} {answer}" for secret in ("hunter2", SECRET))
    # As in Connect, with its text.
    with pytest.raises(
        BadRequest, match=f"^Could not read properties from file {tmp_path}/none: .*{setting} refers to it"
    ):
        await validation.check({**config, setting: f"${{file:{tmp_path}/none:salt}}"})


async def test_the_log_learns_no_secret_of_a_config_that_is_only_judged(worker: FakeWorker) -> None:
    """Whoever may ask for a validation could hide any word of the log."""
    config = {**source_config(), "name": "a", "source.cluster.sasl.password": "Connector"}
    await worker.herder.validation.infos("MirrorSourceConnector", config)
    with pytest.raises(InvalidConfig):
        await worker.herder.configs.put("a", {**config, "tasks.max": "no number"})
    assert worker.resolver.told == []
    await worker.herder.configs.put("a", config)
    assert worker.resolver.told != []
