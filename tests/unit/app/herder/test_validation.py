"""What is wrong with a config as the caller of REST sees it, and what the log says of one that is good."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from mirror_connect.app.errors import BadRequest, InvalidConfig
from mirror_connect.app.herder import validation as validation_module
from mirror_connect.app.herder.client_properties import OverridePolicy
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.validation import ConfigRules, Validation
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.config.converter_settings import check_converters
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from tests.fakes.connect_worker import FakeResolver, FakeWorker, source_config
from tests.fakes.topic_log import FakeTopicLog

WRONG = {"source.consumer.fetch.max.wait.ms": "abc", "source.cluster.sasl.mechanism": "PLAINN", "tasks.max": "0"}
NULL = "Null value can not be supplied as the configuration value."


def validation(rules: ConfigRules | None = None) -> Validation:
    return Validation(FakeResolver(), rules or ConfigRules(), ConfigNotices())


async def test_a_config_with_wrong_client_properties_is_refused_with_all_its_errors() -> None:
    with pytest.raises(InvalidConfig) as caught:
        await validation().check({"name": "a", **source_config(), **WRONG})
    assert [name for name in WRONG if f"for configuration {name}: " in str(caught.value)] == list(WRONG)


async def test_nothing_is_written_for_a_wrong_client_property() -> None:
    async with FakeWorker().running() as worker:
        with pytest.raises(InvalidConfig):
            await worker.herder.configs.put("a", source_config(producer__override__acks="most"))
        assert worker.written() == []


async def test_an_answer_of_validate_has_them_among_the_names_without_a_definition() -> None:
    answer = await validation().infos("MirrorSource", {"name": "a", **source_config(), **WRONG})
    undefined = {
        config["value"]["name"]: config["value"]["errors"] for config in answer["configs"] if not config["definition"]
    }
    assert (answer["error_count"], set(undefined)) == (3, set(WRONG) - {"tasks.max"})


async def test_an_answer_of_validate_has_no_right_client_property_but_overrides() -> None:
    config = {"name": "a", **source_config(producer__override__linger__ms="5", consumer__client__rack="r")}
    names = [info["value"]["name"] for info in (await validation().infos("MirrorSource", config))["configs"]]
    assert ("producer.override.linger.ms" in names, "consumer.client.rack" in names) == (True, False)


async def test_an_override_of_a_wrong_type_is_an_error_of_the_whole_request() -> None:
    config = {"name": "a", **source_config(producer__override__linger__ms="soon")}
    with pytest.raises(
        BadRequest, match=r"^Invalid value soon for configuration producer\.override\.linger\.ms: Not a"
    ):
        await validation().infos("MirrorSource", config)


async def test_an_override_of_a_wrong_value_is_an_error_of_its_own_setting() -> None:
    config = {"name": "a", **source_config(producer__override__acks="most")}
    assert (await validation().infos("MirrorSource", config))["error_count"] == 1


async def test_an_override_is_refused_by_the_workers_policy() -> None:
    rules = ConfigRules(OverridePolicy.of("None", ()))
    with pytest.raises(InvalidConfig, match="The 'None' policy does not allow 'acks' to be overridden"):
        await validation(rules).check({"name": "a", **source_config(producer__override__acks="all")})


async def test_a_producer_of_another_cluster_refuses_the_config() -> None:
    async def errors(config: Mapping[str, str]) -> list[str]:
        return [f"Invalid {name}: elsewhere" for name in config if name == "producer.override.bootstrap.servers"]

    rules = ConfigRules(target_errors=errors)
    with pytest.raises(InvalidConfig, match=r"Invalid producer\.override\.bootstrap\.servers: elsewhere"):
        await validation(rules).check({"name": "a", **source_config(producer__override__bootstrap__servers="c:1")})


async def test_what_is_unknown_is_said_once_when_the_config_comes_and_the_connector_starts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeWorker().running() as worker:
        await worker.herder.configs.put("a", source_config(topcis="x"))
        await worker.state("a", "RUNNING")
    assert [message for message in caplog.messages if "topcis" in message] == [
        "Connector a: These properties are unknown and have no effect: topcis (did you mean topics?)"
    ]


async def test_what_is_unknown_is_said_of_a_config_that_another_worker_took(caplog: pytest.LogCaptureFixture) -> None:
    worker = FakeWorker()
    other = ConfigStore(FakeTopicLog(worker.config_topic))
    await other.start()
    await other.put_connector("a", {"name": "a", **source_config(topcis="x")}, None)
    async with worker.running():
        await worker.state("a", "RUNNING")
    await other.stop()
    assert [message for message in caplog.messages if "topcis" in message] != []


async def test_wrong_settings_of_a_converter_refuse_a_config() -> None:
    config = {"name": "a", **source_config(), "key.converter": "Json", "key.converter.schemas.enable": "banana"}
    with pytest.raises(InvalidConfig, match=r"Invalid value banana for configuration schemas\.enable: Expected value"):
        await validation().check(config)


async def test_an_answer_of_validate_ends_with_the_settings_of_converters_and_has_their_groups() -> None:
    config = {"name": "a", **source_config(), "key.converter": "Json"}
    answer = await validation().infos("MirrorSource", config)
    assert answer["configs"][-1]["value"]["name"].startswith("key.converter.")
    assert {"Schemas", "Serialization"} <= set(answer["groups"])


async def test_a_null_is_shown_as_json_has_it() -> None:
    with pytest.raises(BadRequest, match=r"^Connector config \{name=a, x=null\} contains no connector type$"):
        await validation().check({"name": "a", "x": None})


async def test_a_class_that_a_config_provider_gave_is_quoted_as_its_reference() -> None:
    reference = "${file:/secrets:password}"
    with pytest.raises(BadRequest) as caught:
        await validation().check({"name": "a", **source_config(), "connector.class": reference})
    assert f"which name matches {reference}, " in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("class_name", ["MirrorSource", "org.apache.kafka.connect.mirror.MirrorSourceConnector"])
async def test_a_version_that_there_is_not_refuses_a_config_twice(class_name: str) -> None:
    config = {"name": "a", **source_config(), "connector.class": class_name, "connector.plugin.version": "9"}
    text = "Plugin org.apache.kafka.connect.mirror.MirrorSourceConnector not found that matches the version range [9,9]"
    with pytest.raises(InvalidConfig) as caught:
        await validation().check(config)
    assert (str(caught.value).count(text), "2 error(s)" in str(caught.value)) == (2, True)


async def test_of_a_version_that_there_is_not_connects_own_settings_are_told_alone() -> None:
    answer = await validation().infos("MirrorSource", {"name": "a", **source_config(), "connector.plugin.version": "9"})
    told = {info["value"]["name"]: info["value"] for info in answer["configs"]}
    assert (answer["error_count"], len(told), answer["groups"][-1]) == (2, 19, "Error Handling")
    assert told["connector.plugin.version"]["recommended_values"] == ["4.3.1"]


async def test_a_version_that_is_none_is_an_error_of_the_request() -> None:
    with pytest.raises(BadRequest, match=r"^Unbounded range: \[x$"):
        await validation().check({"name": "a", **source_config(), "connector.plugin.version": "[x"})


async def test_wrong_settings_of_a_predicate_refuse_a_config() -> None:
    with pytest.raises(InvalidConfig, match=r'Missing required configuration "predicates.a.type"'):
        await validation().check({"name": "a", **source_config(), "predicates": "a"})


async def test_settings_of_predicates_come_before_those_of_the_connector() -> None:
    answer = await validation().infos("MirrorSource", {"name": "a", **source_config(), "predicates": "a", "z": None})
    names = [info["value"]["name"] for info in answer["configs"]]
    at = names.index("predicates.a.type")
    assert (names[0], names[at - 1 : at + 3], answer["groups"][-1]) == (
        "z",
        ["offsets.storage.topic", "predicates.a.type", "predicates.a.plugin.version", "enabled"],
        "Predicates: a",
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("refresh.topics.enabled", []),
        ("tasks.max", ["Invalid value null for configuration tasks.max: Value must be non-null"]),
        ("topics", ["Configuration 'topics' values must not be null."]),
        (
            "exactly.once.support",
            [
                "Invalid value null for configuration exactly.once.support: String must be one of (case insensitive): "
                "REQUIRED, REQUESTED",
                NULL,
            ],
        ),
        ("unknown", [NULL]),
    ],
)
async def test_a_null_is_judged_as_by_connect_and_never_stored(name: str, said: list[str]) -> None:
    config = {"name": "a", **source_config(), name: None}
    configs = (await validation().infos("MirrorSource", config))["configs"]
    with pytest.raises(InvalidConfig) as caught:
        await validation().check(config)
    assert [info["value"]["errors"] for info in configs if info["value"]["name"] == name] == [said]
    assert str(caught.value).splitlines()[1:-1] == (said or [NULL])


async def test_a_config_that_takes_long_to_judge_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    judging, go_on = threading.Event(), threading.Event()
    judge = check_converters

    def slow(*arguments: Any) -> Any:
        judging.set()
        # On the loop it would be waited for in vain: the loop itself gives the sign.
        assert go_on.wait(60)
        return judge(*arguments)

    monkeypatch.setattr(validation_module, "check_converters", slow)
    asked = asyncio.create_task(validation().infos("MirrorSource", {"name": "a", **source_config()}))
    await asyncio.to_thread(judging.wait, 60)
    done_before = asked.done()
    go_on.set()
    assert (done_before, (await asked)["error_count"]) == (False, 0)


SELECT = "spark.transform.sql"


async def test_a_statement_that_spark_refuses_is_an_error_of_its_setting() -> None:
    asked: list[TransformSql] = []

    async def error(sql: TransformSql) -> tuple[str, str]:
        asked.append(sql)
        return SELECT, "ORDER BY is not taken (line 1, column 23)"

    config = {"name": "a", **source_config(), SELECT: "SELECT * FROM records ORDER BY key"}
    config["spark.transform.secret.salt"] = "geheim"
    judge = validation(ConfigRules(statement_error=error))
    answer = await judge.infos("MirrorSource", config)
    found = {info["value"]["name"]: info["value"] for info in answer["configs"]}
    said = f"Invalid {SELECT}: ORDER BY is not taken (line 1, column 23)"
    assert (answer["error_count"], found[SELECT]["errors"]) == (1, [said])
    assert "geheim" not in str(answer)
    with pytest.raises(InvalidConfig, match="ORDER BY is not taken"):
        await judge.check(config)
    assert [(each.text, each.secret_names) for each in asked] == [(config[SELECT], ("salt",))] * 2


async def test_spark_is_not_asked_about_a_statement_that_is_wrong_without_it() -> None:
    async def error(_: TransformSql) -> tuple[str, str]:
        raise AssertionError

    judge = validation(ConfigRules(statement_error=error))
    for wrong in ({SELECT: " "}, {"spark.transform.value.schema": "id INT"}, {}):
        answer = await judge.infos("MirrorSource", {"name": "a", **source_config(), **wrong})
        assert answer["error_count"] == len(wrong)
