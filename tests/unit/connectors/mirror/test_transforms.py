"""Which transformations a source connector takes, and what becomes of them for a remote topic."""

from __future__ import annotations

import pytest

from mirror_connect.connectors import CONNECTORS, MirrorCheckpoint, MirrorHeartbeat
from mirror_connect.connectors.config.alias_settings import MOST_ALIASES
from mirror_connect.connectors.definition import ConnectorDefinition
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.json_steps.fields import InsertField, MaskField
from mirror_connect.connectors.mirror.transforms import chain_of, json_parts
from mirror_connect.connectors.record_steps import Action, Condition, JsonForm, JsonStep, Part, Step

SOURCE = CONNECTORS["MirrorSource"]
PACKAGE = "org.apache.kafka.connect.transforms."
VALID: dict[str, str | None] = {
    "name": "m",
    "connector.class": SOURCE.class_name,
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
}


def chain(**transforms: dict[str, str]) -> dict[str, str | None]:
    """A config with these transformations and the predicates that all of them may use."""
    return {
        "transforms": ",".join(transforms),
        **{f"transforms.{alias}.{name}": value for alias, own in transforms.items() for name, value in own.items()},
        "predicates": "gone,marked,orders",
        "predicates.gone.type": "RecordIsTombstone",
        "predicates.marked.type": f"{PACKAGE}predicates.HasHeaderKey",
        "predicates.marked.name": "größe",
        "predicates.orders.type": "TopicNameMatches",
        "predicates.orders.pattern": r"A\.orders.*",
    }


def problems(config: dict[str, str | None]) -> list[str]:
    return SOURCE.validate({**VALID, **config})["transforms"].errors


def test_steps_stand_in_the_order_of_the_aliases() -> None:
    found = chain_of(
        chain(
            last={"type": f"{PACKAGE}InsertHeader", "header": "from", "value.literal": " ä "},
            first={"type": "DropHeaders", "headers": "a, größe"},
            middle={"type": "Filter", "predicate": "gone", "negate": "TRUE"},
            other={"type": "Filter", "predicate": "marked"},
        )
    )
    assert found.steps("A.t") == (
        Step(Action.INSERT_HEADER, headers=(b"from",), value="ä".encode()),
        Step(Action.DROP_HEADERS, headers=(b"a", "größe".encode())),
        Step(Action.FILTER, Condition.IS_TOMBSTONE, negated=True),
        Step(Action.FILTER, Condition.HAS_HEADER, has="größe".encode()),
    )


@pytest.mark.parametrize(("negate", "taken"), [("false", "A.orders.eu"), ("true", "A.other")])
def test_a_predicate_on_the_topic_is_decided_once_for_the_remote_topic(negate: str, taken: str) -> None:
    found = chain_of(chain(all={"type": "Filter", "predicate": "orders", "negate": negate}))
    assert {topic: found.steps(topic) for topic in ("A.orders.eu", "A.other", "orders")} == {
        topic: (Step(Action.FILTER),) if (topic == "A.orders.eu") == (taken == "A.orders.eu") else ()
        for topic in ("A.orders.eu", "A.other", "orders")
    }


def test_no_transformation_is_no_step() -> None:
    assert not chain_of({})
    assert chain_of({"transforms": "", "predicates": "a"}).steps("t") == ()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"transforms.one.type": "com.example.Mask"}, "transforms.one.type: this transformation"),
        ({"transforms.one.type": None}, "transforms.one.type: this transformation"),
        ({"transforms.one.type": "TimestampRouter"}, "transforms.one.type: this transformation"),
        ({"transforms.one.type": "RegexRouter"}, "transforms.one.regex: it has to be set"),
        (
            {"transforms.one.type": "RegexRouter", "transforms.one.regex": "("},
            "transforms.one.replacement: it has to be set",
        ),
        (
            {
                "transforms.one.type": "RegexRouter",
                "transforms.one.regex": "a",
                "transforms.one.replacement": "$1",
                "transforms.one.predicate": "orders",
            },
            "transforms.one.replacement: No group 1",
        ),
        (
            {"transforms.one.type": "RegexRouter", "transforms.one.regex": "a", "transforms.one.replacement": "b"},
            "predicates.gone.type: this predicate",
        ),
        ({"transforms": "one,s3cret"}, "Invalid transforms: transformation 2 of it has no type"),
        ({"transforms.one.predicate": "unknown"}, "predicates.unknown.type: this predicate"),
        ({"predicates.gone.type": "com.example.P"}, "predicates.gone.type: this predicate"),
        ({"transforms.one.negate": "maybe"}, "transforms.one.negate"),
        ({"transforms.one.type": "InsertHeader"}, "transforms.one.header: it has to be set"),
        (
            {"transforms.one.type": "InsertHeader", "transforms.one.header": "h"},
            "transforms.one.value.literal: it has to be set",
        ),
        ({"transforms.one.type": "DropHeaders"}, "transforms.one.headers: it must name a header"),
        ({"transforms.one.type": "DropHeaders", "transforms.one.headers": "\ud800"}, "half of a surrogate pair"),
        ({"transforms.one.predicate": "orders", "predicates.orders.pattern": "["}, "predicates.orders.pattern"),
        ({"transforms": ",".join(map(str, range(MOST_ALIASES + 1)))}, "more than"),
    ],
)
def test_a_config_that_no_validation_has_seen_is_not_guessed_at(changes: dict[str, str | None], problem: str) -> None:
    """Other workers store configs, too, and the values of providers change."""
    config = {**chain(one={"type": "Filter", "predicate": "gone"}), **changes}
    with pytest.raises(ConfigError, match=problem):
        chain_of({name: value for name, value in config.items() if value is not None})


def test_too_many_are_refused() -> None:
    (problem,) = problems({"transforms": ",".join(map(str, range(MOST_ALIASES + 1)))})
    assert "more than 1000" in problem


def test_a_slow_expression_is_named() -> None:
    slow = {**chain(one={"type": "Filter", "predicate": "orders"}), "predicates.orders.pattern": "(a+)+b"}
    with pytest.raises(ConfigError, match=r"predicates\.orders\.pattern"):
        chain_of(slow).judge(["a" * 60])


JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
JSON = {
    "key.converter": JSON_CONVERTER,
    "key.converter.schemas.enable": "false",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "False",
}
MASK = {"type": f"{PACKAGE}MaskField$Value", "fields": "card, email"}


def test_one_that_needs_schemas_is_refused_by_name() -> None:
    (problem,) = problems(chain(a={"type": "Filter"}, schema={"type": f"{PACKAGE}SetSchemaMetadata$Value"}))
    assert problem == (
        "Invalid value a,schema for configuration transforms: SetSchemaMetadata$Value can't be applied here, as it needs "
        "schemas, or looks into JSON and headers at once. These can: Cast, DropHeaders, ExtractField, Filter, Flatten, "
        "HoistField, InsertField, InsertHeader, MaskField, RegexRouter, ReplaceField, TimestampConverter, ValueToKey"
    )


@pytest.mark.parametrize(
    "converter",
    [
        {},
        {"value.converter.schemas.enable": "false"},
        {"value.converter": "StringConverter", "value.converter.schemas.enable": "false"},
        {name: value for name, value in JSON.items() if name.startswith("key")},
    ],
)
def test_one_that_looks_into_values_needs_them_to_be_json(converter: dict[str, str | None]) -> None:
    config = {**VALID, **chain(mask=MASK), **converter}
    (problem,) = SOURCE.validate(config)["transforms"].errors
    assert problem.endswith(
        f"MaskField$Value needs a value that is JSON: set value.converter={JSON_CONVERTER}, and "
        "value.converter.schemas.enable=false if it has no schemas"
    )
    with pytest.raises(ConfigError, match=r"value\.converter: transformation mask needs a value"):
        chain_of(config)
    assert SOURCE.validate({**config, **JSON})["transforms"].errors == []


@pytest.mark.parametrize(
    ("settings", "form"),
    [
        ({}, JsonForm(schemas=True)),
        ({"schemas.enable": "false", "schema.content": '{"type":"int32"}'}, JsonForm()),
        ({"schemas.enable": "TRUE", "decimal.format": "numeric"}, JsonForm(schemas=True, numeric_decimals=True)),
        ({"replace.null.with.default": "false"}, JsonForm(schemas=True, replace_nulls=False)),
    ],
)
def test_a_json_converter_says_how_values_are_read_and_written(settings: dict[str, str], form: JsonForm) -> None:
    config = {**VALID, **chain(mask=MASK), "value.converter": JSON_CONVERTER}
    config |= {f"value.converter.{name}": text for name, text in settings.items()}
    assert SOURCE.validate(config)["transforms"].errors == []
    (step,) = chain_of(config).steps("A.t", 0)
    assert step == JsonStep("mask", Part.VALUE, MaskField(("card", "email")), value=form)


def test_a_schema_in_the_config_is_refused() -> None:
    config = {**chain(mask=MASK), "value.converter": JSON_CONVERTER, "value.converter.schema.content": "{}"}
    (problem,) = problems(config)
    assert problem == (
        "Invalid value.converter.schema.content: the schema has to be in the records: leave it out, as only sink connectors "
        "have it"
    )
    with pytest.raises(ConfigError, match=r"value\.converter\.schema\.content"):
        chain_of(config)


def test_a_converter_with_a_wrong_setting_is_not_guessed_at() -> None:
    config = {**chain(mask=MASK), "value.converter": JSON_CONVERTER, "value.converter.schemas.enable": "banana"}
    with pytest.raises(ConfigError, match=r"value\.converter\.schemas\.enable"):
        chain_of(config)


def test_a_key_that_is_made_of_the_value_needs_both_to_be_json() -> None:
    config = chain(key={"type": "ValueToKey", "fields": "id"})
    assert len(problems(config)) == 2
    (problem,) = problems({**config, **{name: value for name, value in JSON.items() if name.startswith("value")}})
    assert "key.converter" in problem
    assert problems({**config, **JSON}) == []


def test_steps_on_json_stand_among_the_others_and_know_their_place() -> None:
    found = chain_of(
        chain(
            mask={**MASK, "predicate": "gone", "negate": "true"},
            plain={"type": "RegexRouter", "regex": r"A\.(.*)", "replacement": "$1"},
            where={"type": f"{PACKAGE}InsertField$Key", "topic.field": "topic?", "partition.field": "p!"},
            drop={"type": "DropHeaders", "headers": "a"},
        )
        | JSON
    )
    mask, where, drop = found.steps("A.t", 7)
    assert mask == JsonStep("mask", Part.VALUE, MaskField(("card", "email")), Condition.IS_TOMBSTONE, negated=True)
    assert where == JsonStep(
        "where", Part.KEY, InsertField("topic", "p", place=("t", 7), required=frozenset({"partition"}))
    )
    assert drop == Step(Action.DROP_HEADERS, headers=(b"a",))
    assert found.steps("A.heartbeats", routed=False, heartbeats=True) == (drop,)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"type": f"{PACKAGE}InsertField$Value"}, "static.field: No field insertion configured"),
        (
            {"type": f"{PACKAGE}InsertField$Value", "static.field": "f"},
            "static.value: No value specified for static field",
        ),
        (
            {"type": f"{PACKAGE}InsertField$Value", "offset.field": "f"},
            "offset.field: only sink connectors have it: leave it out",
        ),
        (
            {"type": f"{PACKAGE}ExtractField$Value", "field": "`a", "field.syntax.version": "v2"},
            "field: Incomplete backtick pair in the path",
        ),
        (
            {"type": f"{PACKAGE}ExtractField$Value", "field": "", "field.syntax.version": "V2"},
            "field: the path is empty",
        ),
        (
            {"type": f"{PACKAGE}TimestampConverter$Value", "target.type": "string"},
            "format: TimestampConverter requires format option to be specified when using string timestamps",
        ),
        (
            {"type": f"{PACKAGE}TimestampConverter$Value", "target.type": "unix", "format": "YYYY"},
            "format: its letter Y can't be used here. These can: yMdHhKkmsSaEZX",
        ),
        (
            {"type": f"{PACKAGE}TimestampConverter$Value", "target.type": "unix", "format": "yyyy b"},
            "format: Illegal pattern character 'b'",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings: dict[str, str], problem: str) -> None:
    assert problems(chain(one=settings) | JSON) == [f"Invalid transforms.one.{problem}"]
    with pytest.raises(ConfigError):
        chain_of(chain(one=settings) | JSON)


def test_a_format_of_a_provider_is_not_shown() -> None:
    config = {**VALID, **JSON}
    config |= chain(one={"type": f"{PACKAGE}TimestampConverter$Value", "target.type": "unix", "format": "s3cret"})
    written = {**config, "transforms.one.format": "${file:/a:b}"}
    assert SOURCE.validate(config, written)["transforms"].errors == [
        "Invalid transforms.one.format: its value can not be used"
    ]


def test_only_what_a_transformation_reads_counts_as_json() -> None:
    assert json_parts({**JSON, **chain(one=MASK)}) == {"value"}
    assert json_parts({**JSON, **chain(one={"type": "Filter"})}) == set()
    assert json_parts(chain(one=MASK)) == set()


def test_one_that_needs_the_time_of_a_record_is_refused_with_its_reason() -> None:
    (problem,) = problems(chain(daily={"type": "TimestampRouter"}))
    assert problem == (
        "Invalid value daily for configuration transforms: TimestampRouter can't be applied here, as each record would have "
        "its topic by its time. Then no position on the target stands for one at the source. RegexRouter can"
    )


ROUTE = {"type": "RegexRouter", "regex": r"A\.(.*)", "replacement": "$1"}


@pytest.mark.parametrize("predicate", ["gone", "marked"])
def test_a_route_takes_a_predicate_on_the_topic_alone(predicate: str) -> None:
    assert problems(chain(route={**ROUTE, "predicate": "orders"})) == []
    (problem,) = problems(chain(route={**ROUTE, "predicate": predicate}))
    assert problem.startswith(f"Invalid value {predicate} for configuration transforms.route.predicate: ")


def test_a_replacement_that_no_name_can_get_is_refused_before_a_task_would_fail() -> None:
    (problem,) = problems(chain(route={**ROUTE, "replacement": "$2"}))
    assert problem == "Invalid value $2 for configuration transforms.route.replacement: No group 2"


def test_a_replacement_of_a_provider_is_not_shown() -> None:
    config = {**VALID, **chain(route={**ROUTE, "replacement": "${s3cret}"})}
    (problem,) = SOURCE.validate(config, {**config, "transforms.route.replacement": "${file:/a:b}"})[
        "transforms"
    ].errors
    assert problem == (
        "Invalid value ${file:/a:b} for configuration transforms.route.replacement: it does not fit the expression"
    )


def test_prefixes_of_names_have_no_route() -> None:
    config = {**VALID, **chain(route=ROUTE), "sync.topic.acls.prefixed.enabled": "true"}
    (problem,) = SOURCE.validate(config)["sync.topic.acls.prefixed.enabled"].errors
    assert "a RegexRouter names whole topics" in problem


def test_each_class_of_kafka_is_taken_or_refused() -> None:
    for kind, refused in {
        "DropHeaders": False,
        f"{PACKAGE}Filter": False,
        "InsertHeader": False,
        f"{PACKAGE}MaskField$Value": True,
        f"{PACKAGE}TimestampRouter": True,
        "com.example.Mine": False,  # its own error stands at its type
    }.items():
        assert bool(problems(chain(one={"type": kind, "headers": "a", "header": "a", "value.literal": "b"}))) == refused


@pytest.mark.parametrize("predicate", ["unknown", ""])
def test_a_predicate_that_is_not_declared_is_refused(predicate: str) -> None:
    (problem,) = problems(chain(one={"type": "Filter", "predicate": predicate}))
    assert problem == (
        f"Invalid value {predicate} for configuration transforms.one.predicate: predicates does not name it"
    )


def test_what_a_provider_gave_is_not_shown() -> None:
    config = {**VALID, **chain(one={"type": "Filter", "predicate": "s3cret"})}
    written = {**config, "transforms.one.predicate": "${file:/a:b}"}
    (problem,) = SOURCE.validate(config, written)["transforms"].errors
    assert "s3cret" not in problem
    for kind in ("ValueToKey", f"{PACKAGE}SetSchemaMetadata$Key"):
        config = {**VALID, **chain(one={"type": kind})}
        found = SOURCE.validate(config, {**config, "transforms.one.type": "${file:/a:b}"})["transforms"].errors
        assert found
        assert not any(kind.removeprefix(PACKAGE) in problem for problem in found)


def test_transformed_copies_are_not_sampled() -> None:
    config = {**VALID, **chain(one={"type": "Filter"}), "verify.follow.enabled": "true"}
    assert "can't be verified" in SOURCE.validate(config)["verify.follow.enabled"].errors[0]
    assert SOURCE.validate({**config, "transforms": ""})["verify.follow.enabled"].errors == []
    routed = {**VALID, **chain(one=ROUTE), "verify.follow.enabled": "true"}
    assert SOURCE.validate(routed)["verify.follow.enabled"].errors == []


@pytest.mark.parametrize("connector", ["MirrorCheckpoint", "MirrorHeartbeat"])
def test_checkpoints_and_heartbeats_are_not_transformed(connector: str) -> None:
    config = {**VALID, "connector.class": connector, **chain(one={"type": "Filter"})}
    assert "leave it out" in CONNECTORS[connector].validate(config)["transforms"].errors[0]


@pytest.mark.parametrize("definition", [MirrorCheckpoint(), MirrorHeartbeat()])
def test_a_connector_of_a_flow_goes_without_the_transformations_of_the_flow_and_says_so(
    definition: ConnectorDefinition,
) -> None:
    config = {
        "name": definition.simple_name,
        "connector.class": definition.class_name,
        "source.cluster.alias": "A",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:1",
        "transforms": "stamp",
        "transforms.stamp.type": "org.apache.kafka.connect.transforms.Filter",
    }
    # Written by REST for this connector alone it is a mistake.
    assert definition.validate(config)["transforms"].errors
    assert definition.settings(config).texts("transforms") == []
    assert any(line.startswith("transforms=stamp has no effect") for line in definition.warnings(config))
