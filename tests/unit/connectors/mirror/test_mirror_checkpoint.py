import json
from typing import Any

import pytest

from mirror_connect.connectors.mirror.mirror_checkpoint import (
    CHECKPOINT_TASK_CLASS,
    MirrorCheckpoint,
    assign_groups,
    assigned_groups,
    checkpoint_selection,
    is_active,
    task_configs,
)
from tests.fakes.definitions import infos_of
from tests.paths import FIXTURES

CHECKPOINT = MirrorCheckpoint()
VALID = {"name": "v", "connector.class": "MirrorCheckpoint", "source.cluster.alias": "A"}


RECORDED: dict[str, Any] = json.loads((FIXTURES / "validate-MirrorCheckpointConnector.json").read_text())


def errors(**config: str) -> dict[str, list[str]]:
    results = CHECKPOINT.validate({**VALID, **{name.replace("_", "."): value for name, value in config.items()}})
    return {name: result.errors for name, result in results.items() if result.errors}


@pytest.mark.kafka_test("MirrorCheckpointConfigTest.testNonMutationOfConfigDef")
def test_definitions_are_those_of_kafka_in_their_order() -> None:
    expected = RECORDED["definitions"]
    assert [{name: key[name] for name in expected[0]} for key in CHECKPOINT.describe()] == expected


@pytest.mark.parametrize("validation", RECORDED["validations"], ids=lambda validation: validation["about"][:8])
def test_a_validation_answers_as_kafka_does(validation: dict[str, Any]) -> None:
    answer = infos_of(CHECKPOINT, validation["request"])
    fields = ("name", "value", "errors", "visible")
    answer["configs"] = [{name: entry["value"][name] for name in fields} for entry in answer["configs"]]
    assert answer == validation["response"]


# Texts and conditions as MirrorCheckpointConnector.validate of 4.3.1 gives them.
@pytest.mark.kafka_test("MirrorCheckpointConfigTest.testValidateIfConnectorEnabled")
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            {"emit.checkpoints.enabled": "false"},
            {
                "emit.checkpoints.enabled": "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false"
            },
        ),
        (
            {"emit.offset-syncs.enabled": "false"},
            {"emit.offset-syncs.enabled": "MirrorCheckpointConnector can't run without offset syncs"},
        ),
        ({"emit.offset-syncs.enabled": "true"}, {}),
        ({"emit.checkpoints.enabled": "FALSE"}, {}),
        ({"groups": "a,a"}, {"groups": "Configuration 'groups' values must not be duplicated."}),
        ({"groups": ""}, {}),
        (
            {"offset-syncs.topic.location": "here"},
            {
                "offset-syncs.topic.location": "Invalid value here for configuration offset-syncs.topic.location: "
                "String must be one of: source, target"
            },
        ),
    ],
    ids=str,
)
def test_rules_across_settings_are_those_of_kafka(config: dict[str, str], expected: dict[str, str]) -> None:
    assert errors(**config) == {name: [text] for name, text in expected.items()}


@pytest.mark.kafka_test("MirrorCheckpointConfigTest.testSkipValidationIfConnectorDisabled")
def test_a_connector_that_is_off_may_emit_nothing() -> None:
    off = {"enabled": "false", "emit.checkpoints.enabled": "false", "emit.offset-syncs.enabled": "false"}
    assert errors(**off) == {}


@pytest.mark.parametrize("name", ["groups", "groups.exclude", "topics", "topics.exclude"])
def test_a_broken_expression_is_refused_with_its_setting(name: str) -> None:
    assert list(errors(**{name: "a,b("})) == [name]


def test_a_broken_expression_from_a_provider_is_not_shown() -> None:
    config = {**VALID, "topics": "hunter2("}
    assert "hunter2" not in str(infos_of(CHECKPOINT, config, as_written={**config, "topics": "${file:/s:k}"}))


def test_a_transformation_is_refused() -> None:
    assert CHECKPOINT.validate({**VALID, "transforms": "a"})["transforms"].errors


@pytest.mark.kafka_test("MirrorCheckpointConfigTest.testGroupMatching")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testFindConsumerGroups")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testFindConsumerGroupsInCommonScenarios")
@pytest.mark.parametrize(
    ("group", "topics", "wanted"),
    [
        ("g1", ["t1"], True),
        ("g1", ["u", "t1"], True),
        ("g1", ["u"], False),
        ("g1", [], False),
        ("g2", ["t1"], False),
        ("h", ["t1"], False),
    ],
)
def test_a_group_is_translated_if_it_and_one_of_its_topics_are_wanted(
    group: str, topics: list[str], wanted: bool
) -> None:
    settings = CHECKPOINT.settings({**VALID, "groups": "g.*", "groups.exclude": "g2", "topics": "t1, t2"})
    assert checkpoint_selection(settings).wants(group, topics) is wanted


def test_without_lists_the_defaults_hold() -> None:
    selection = checkpoint_selection(CHECKPOINT.settings(VALID))
    names = ["g", "connect-x", "console-consumer-1", "__g"]
    assert ([name for name in names if selection.accepts_group(name)], selection.accepts_topic("mm2-x.internal")) == (
        ["g"],
        False,
    )


@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testReplicationEnabled")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testMirrorCheckpointConnectorDisabled")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testReplicationDisabled")
@pytest.mark.parametrize(
    ("config", "active"),
    [({}, True), ({"enabled": "false"}, False), ({"emit.checkpoints.enabled": "FALSE"}, False)],
    ids=str,
)
def test_a_connector_without_emission_has_no_tasks(config: dict[str, str], active: bool) -> None:
    assert is_active(CHECKPOINT.settings({**VALID, **config})) is active


@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testNoConsumerGroup")
@pytest.mark.parametrize(
    ("groups", "tasks", "sizes"),
    [(5, 2, [3, 2]), (7, 3, [3, 2, 2]), (2, 4, [1, 1]), (10, 4, [3, 3, 2, 2]), (0, 3, [])],
)
def test_groups_are_dealt_in_chunks_as_kafka_deals_them(groups: int, tasks: int, sizes: list[int]) -> None:
    names = [f"g{number}" for number in range(groups)]
    dealt = assign_groups(names, tasks)
    assert ([len(chunk) for chunk in dealt], [name for chunk in dealt for name in chunk]) == (sizes, names)


@pytest.mark.kafka_test("MirrorCheckpointConfigTest.testTaskConfigConsumerGroups")
@pytest.mark.kafka_test("MirrorCheckpointConnectorTest.testMirrorCheckpointConnectorEnabled")
def test_a_task_config_names_its_groups() -> None:
    (config,) = task_configs(VALID, [["g1", "g2"]])
    assert config == {**VALID, "task.class": CHECKPOINT_TASK_CLASS, "task.index": "0", "task.assigned.groups": "g1,g2"}


@pytest.mark.parametrize("groups", [["g1", "g2"], ["a,b", "c"], [" a", "b "], [""], []], ids=str)
def test_a_task_knows_its_groups_whatever_their_names_hold(groups: list[str]) -> None:
    assert assigned_groups(task_configs(VALID, [groups])[0]) == groups
