"""A connector's config is judged by the worker's own rules, all of its properties at once."""

from __future__ import annotations

import pytest

from mirror_connect.app.config.allowed_paths import NO_FILES, LookupPaths
from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.herder.client_properties import OverridePolicy
from mirror_connect.check.connector_judge import judge_connector
from mirror_connect.check.judgement import Judgement, Verdict, shown
from mirror_connect.connectors import CONNECTORS, DEFINITIONS, MirrorSource

SOURCE = {
    "name": "mirror",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
}


def _judged(**settings: str | None) -> dict[str, Judgement]:
    given = {name.replace("__", "-").replace("_", "."): value for name, value in settings.items()}
    return {each.name: each for each in judge_connector({**SOURCE, **given})}


def _verdicts(**settings: str | None) -> dict[str, Verdict]:
    return {name: each.verdict for name, each in _judged(**settings).items() if name not in SOURCE}


def test_what_the_worker_takes_as_kafka_does_is_the_same() -> None:
    assert _verdicts(
        topics="orders.*", tasks_max="4", sync_topic_acls_enabled="false", replication_factor="-1"
    ) == dict.fromkeys(("topics", "tasks.max", "sync.topic.acls.enabled", "replication.factor"), Verdict.SAME)


def test_refused_properties_are_all_told_although_the_worker_names_them_one_after_another() -> None:
    found = _judged(
        tasks_max="many",
        transforms="route",
        transforms_route_type="org.apache.kafka.connect.transforms.TimestampRouter",
        source_cluster_security_protocol="SASL_SSL",
        source_cluster_sasl_mechanism="GSSAPI",
        exactly_once_support="required",
    )
    refused = {name for name, each in found.items() if each.verdict is Verdict.REFUSED}
    assert refused == {"tasks.max", "transforms", "source.cluster.sasl.mechanism", "exactly.once.support"}
    assert all(each.instead for name, each in found.items() if name in refused)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("emit.heartbeat.enabled", "true"),
        ("producer.override.compression.type", "zstd"),
        ("producer.override.acks", "1"),
        ("producer.override.max.in.flight.requests.per.connection", "5"),
        ("source.consumer.max.poll.records", "5"),
        ("target.admin.metrics.num.samples", "3"),
        ("source.cluster.fetch.min.bytes", "1"),
        ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
        ("errors.retry.timeout", "5"),
        ("on.corrupt.batch", "skip"),
    ],
)
def test_what_means_something_else_is_told(name: str, value: str) -> None:
    judged = {each.name: each for each in judge_connector({**SOURCE, name: value})}[name]
    assert judged.verdict is Verdict.DIFFERENT
    assert judged.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key.converter", "org.apache.kafka.connect.converters.ByteArrayConverter"),
        ("key.converter", "ByteArrayConverter"),
        ("producer.override.acks", "all"),
        ("producer.override.linger.ms", "100"),
        ("source.consumer.fetch.min.bytes", "100"),
        ("groups", "of another connector of MirrorMaker"),
        ("exactly.once.support", "requested"),
    ],
)
def test_what_means_the_same_is_not_made_a_difference(name: str, value: str) -> None:
    assert {each.name: each.verdict for each in judge_connector({**SOURCE, name: value})}[name] is Verdict.SAME


def test_who_requires_exactly_once_is_not_sent_to_read_committed_first() -> None:
    config = {**SOURCE, "exactly.once.support": "required"}
    for support in (Support.DISABLED, Support.PREPARING):
        judged = {each.name: each for each in judge_connector(config, support=support)}["exactly.once.support"]
        assert judged.verdict is Verdict.REFUSED
        assert "read_committed" not in judged.text + judged.instead


def test_exactly_once_is_the_same_on_a_worker_that_has_it() -> None:
    config = {**SOURCE, "exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"}
    config |= {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000"}
    assert {each.verdict for each in judge_connector(config, support=Support.ENABLED)} == {Verdict.SAME}
    # The worker's log says of these that they have no effect.
    idle = [each.name for each in judge_connector(config, support=Support.PREPARING) if each.unread]
    assert idle == ["transaction.boundary", "transaction.boundary.interval.ms"]


def test_a_typo_gets_the_likely_name() -> None:
    assert (
        _judged(emit_heartbeat_enabled="true")["emit.heartbeat.enabled"].instead
        == "Did you mean emit.heartbeats.enabled?"
    )


@pytest.mark.parametrize("name", ["topics", "groups", "config.properties"])
def test_a_name_of_an_earlier_release_gets_what_replaced_it(name: str) -> None:
    judged = _judged(**{f"{name}.blacklist": "x"})[f"{name}.blacklist"]
    assert (judged.verdict, judged.instead) == (Verdict.DIFFERENT, f"Write {name}.exclude.")


def test_a_missing_property_and_a_null_are_refused() -> None:
    assert {
        each.name for each in judge_connector({"connector.class": "MirrorSource"}) if each.verdict is Verdict.REFUSED
    } == {
        "source.cluster.alias",
    }
    assert _verdicts(topics=None)["topics"] is Verdict.REFUSED
    assert _verdicts(anything=None)["anything"] is Verdict.REFUSED


def test_a_value_that_a_config_provider_holds_is_not_judged_nor_what_depends_on_it() -> None:
    found = _verdicts(
        tasks_max="${file:/secrets:tasks}",
        source_cluster_security_protocol="SASL_SSL",
        source_cluster_sasl_mechanism="PLAIN",
        source_cluster_sasl_jaas_config="${file:/secrets:jaas}",
        exactly_once_support="required",
        source_cluster_unheard_of="${file:/secrets:jaas}",
    )
    assert found["tasks.max"] is found["source.cluster.sasl.jaas.config"] is Verdict.NOT_JUDGED
    assert found["source.cluster.security.protocol"] is found["source.cluster.sasl.mechanism"] is Verdict.SAME
    assert found["exactly.once.support"] is Verdict.REFUSED
    assert found["source.cluster.unheard.of"] is Verdict.DIFFERENT


@pytest.mark.parametrize("config", [{}, {"connector.class": None}, {"connector.class": "io.debezium.Some", "a": "b"}])
def test_a_connector_that_is_not_here_is_refused_by_its_class_alone(config: dict[str, str | None]) -> None:
    assert [(each.name, each.verdict) for each in judge_connector(config)] == [("connector.class", Verdict.REFUSED)]


def test_the_workers_override_policy_counts() -> None:
    config = {**SOURCE, "producer.override.acks": "all"}
    judged = {each.name: each.verdict for each in judge_connector(config, OverridePolicy.of("None", ()))}
    assert judged["producer.override.acks"] is Verdict.REFUSED


def test_where_the_worker_reads_files_of_lookups_counts_if_it_is_known() -> None:
    name = "spark.transform.lookup.r"
    config = {**SOURCE, "spark.transform.sql": "SELECT 1", name: "/data/none.csv", f"{name}.schema": "id INT"}

    def verdict(paths: LookupPaths | None) -> Judgement:
        return {each.name: each for each in judge_connector(config, paths=paths)}[name]

    assert verdict(None).verdict is Verdict.DIFFERENT
    assert verdict(LookupPaths(("/data",))).verdict is Verdict.DIFFERENT
    refused = verdict(NO_FILES)
    assert (refused.verdict, "spark.transform.lookup.allowed.paths is not set" in refused.text) == (
        Verdict.REFUSED,
        True,
    )


def test_a_text_that_quotes_a_secret_hides_it() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush-hush" oops'
    found = _judged(
        source_cluster_security_protocol="SASL_SSL",
        source_cluster_sasl_mechanism="PLAIN",
        source_cluster_sasl_jaas_config=jaas,
    )
    assert found["source.cluster.sasl.jaas.config"].verdict is Verdict.REFUSED
    assert not any("hush-hush" in each.text + each.instead for each in found.values())


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each.simple_name)
def test_every_default_is_taken(definition: object) -> None:
    known = next(each for each in CONNECTORS.values() if each is definition)
    config: dict[str, str | None] = {**SOURCE, "connector.class": known.class_name}
    config |= {key.name: str(key.default).lower() for key in known.keys if isinstance(key.default, bool | int)}
    assert {each.verdict for each in judge_connector(config)} <= {Verdict.SAME, Verdict.DIFFERENT}


def test_what_a_login_lacks_without_its_refused_property_is_not_told() -> None:
    found = _judged(
        source_cluster_security_protocol="SASL_SSL",
        source_cluster_sasl_mechanism="OAUTHBEARER",
        source_cluster_sasl_jaas_config="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        source_cluster_sasl_login_callback_handler_class="io.strimzi.Handler",
    )
    assert {name for name, each in found.items() if each.verdict is Verdict.REFUSED} == {
        "source.cluster.sasl.login.callback.handler.class"
    }


def test_what_a_login_lacks_is_told() -> None:
    found = _judged(tasks_max="many", source_cluster_security_protocol="SASL_SSL")
    assert found["source.cluster.sasl.mechanism"].verdict is Verdict.REFUSED


_TRANSFORMS = {
    "transforms": "mask,plain",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.DropHeaders",
    "transforms.mask.headers": "trace",
    "transforms.mask.predicate": "ours",
    "transforms.plain.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.plain.regex": "A(.*)",
    "transforms.plain.replacement": "$1",
    "predicates": "ours,other",
    "predicates.ours.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.ours.pattern": "ours.*",
    "predicates.other.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
}


def _told(**others: str) -> dict[str, tuple[str, str]]:
    config = {**SOURCE, **_TRANSFORMS, **{name.replace("_", "."): value for name, value in others.items()}}
    return {
        each.name: (each.text, each.instead)
        for each in judge_connector(config)
        if each.verdict is Verdict.DIFFERENT and each.unread
    }


def test_a_predicate_that_no_transformation_names_has_no_effect() -> None:
    said = ("No transformation names predicate other, so it has no effect.",)
    assert _told() == {"predicates.other.type": (*said, "Write transforms.….predicate=other, or leave it out.")}
    assert _told(transforms_plain_predicate="other") == {}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("transforms.gone.type", ("transforms does not name gone", "Add gone to transforms")),
        ("transforms.a.b.field.syntax.version", ("transforms does not name a.b,", "Add a.b to transforms")),
        ("predicates.gone.pattern", ("predicates does not name gone", "Add gone to predicates")),
        ("transforms.mask.header", ("Unknown, so it", "Did you mean transforms.mask.headers?")),
        ("predicates.ours.patern", ("Unknown, so it", "Did you mean predicates.ours.pattern?")),
    ],
)
def test_settings_of_an_alias_that_nobody_reads_have_no_effect(name: str, told: tuple[str, str]) -> None:
    text, instead = _told(transforms_plain_predicate="other", **{name: "x"})[name]
    assert text.startswith(told[0])
    assert instead.startswith(told[1])


@pytest.mark.parametrize(
    ("others", "told"),
    [
        pytest.param({}, ("errors.tolerance is not all", "Set errors.tolerance=all, or leave it out."), id="none"),
        pytest.param(
            {"errors.tolerance": "all", "transforms": "", "predicates": ""},
            ("the connector has no transformations", "Leave it out."),
            id="nothing_fails",
        ),
    ],
)
def test_a_dead_letter_topic_that_gets_nothing_has_no_effect(others: dict[str, str], told: tuple[str, str]) -> None:
    letters = {"errors.deadletterqueue.topic.name": "letters", "errors.deadletterqueue.context.headers.enable": "true"}
    found = _told(transforms_plain_predicate="other", **letters, **others)
    said = (f"It has no effect, as {told[0]}.", told[1])
    assert {name: found.get(name) for name in letters} == dict.fromkeys(letters, said)
    # The log of the worker names the same ones.
    config = {**SOURCE, **_TRANSFORMS, **letters, **others}
    assert f"Without effect, as {told[0]}: {', '.join(sorted(letters))}" in MirrorSource().warnings(config)


def test_a_dead_letter_topic_that_gets_records_is_not_called_idle() -> None:
    letters = {"errors.deadletterqueue.topic.name": "letters", "transforms.plain.predicate": "other"}
    assert _told(**letters, errors_tolerance="all") == {}
    # A provider may allow it.
    assert _told(**letters, errors_tolerance="${file:/a:b}") == {}
    judged = _judged(**letters, errors_tolerance="all", **_TRANSFORMS)["errors.deadletterqueue.topic.name"]
    assert (judged.verdict, "no effect" in judged.text) == (Verdict.DIFFERENT, False)


def test_settings_of_a_dead_letter_topic_without_its_name_have_no_effect() -> None:
    found = _told(errors_tolerance="all", **{"errors.deadletterqueue.topic.replication.factor": "1"})
    text, instead = found["errors.deadletterqueue.topic.replication.factor"]
    assert text == "It has no effect, as errors.deadletterqueue.topic.name is not set."
    assert instead == "Set errors.deadletterqueue.topic.name, or leave it out."


def test_what_a_config_provider_lists_is_not_called_idle() -> None:
    assert _told(transforms="${file:/a:b}", predicates="${file:/a:c}") == {}
    # Only the list of transformations is not known: each predicate may be named by one.
    assert _told(transforms="${file:/a:b}") == {}


def test_settings_of_a_transformation_that_is_not_here_are_not_judged_one_by_one() -> None:
    own = {"transforms_route_type": "org.apache.kafka.connect.transforms.TimestampRouter"}
    found = _told(transforms="route,mask", **own, **{"transforms.route.topic.format": "x"})
    assert not any(name.startswith("transforms.route.") for name in found)


_MASK = {
    "transforms": "mask",
    "transforms_mask_type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms_mask_fields": "email",
}
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def test_a_converter_by_which_transformations_read_json_is_kept() -> None:
    found = _judged(
        **_MASK,
        key_converter=_JSON,
        value_converter=_JSON,
        value_converter_schemas_enable="false",
        value_converter_schemas_cache_size="5",
    )
    assert found["value.converter"].text.startswith("Transformations read values as JSON by it.")
    assert not found["value.converter"].instead
    assert found["value.converter.schemas.enable"].verdict is Verdict.SAME
    assert found["value.converter.schemas.cache.size"].text == "It has no effect."
    assert found["key.converter"].instead == "Set ByteArrayConverter, which writes the same in both."


def test_a_converter_by_which_transformations_can_read_nothing_is_to_be_that_of_json() -> None:
    found = _judged(**_MASK, value_converter="org.apache.kafka.connect.storage.StringConverter")
    assert found["transforms"].verdict is Verdict.REFUSED
    assert found["value.converter"].instead == f"Set value.converter={_JSON}."


@pytest.mark.parametrize("name", ["spark.transform.lookup.customers", "spark.transform.secret.salt"])
def test_settings_of_statements_are_of_this_product_alone(name: str) -> None:
    config = {
        **SOURCE,
        "spark.transform.sql": "SELECT value FROM records",
        "spark.transform.lookup.customers": "/data/customers.csv",
        "spark.transform.lookup.customers.schema": "id STRING",
        "spark.transform.secret.salt": "pepper",
    }
    judged = {each.name: each for each in judge_connector(config)}[name]
    assert judged.verdict is Verdict.DIFFERENT, judged


@pytest.mark.parametrize(
    ("class_name", "instead"),
    [
        (
            "org.apache.kafka.connect.transforms.MaskFeild$Value",
            "Did you mean org.apache.kafka.connect.transforms.MaskField$Value?",
        ),
        ("MaskFeild$Value", "Did you mean org.apache.kafka.connect.transforms.MaskField$Value?"),
        ("org.apache.kafka.connect.transforms.Zebra", "Correct the value, or leave the property out."),
        (
            "com.acme.Encrypt$Value",
            "Keep a connector with other transformations, or with other formats than JSON, on Kafka Connect.",
        ),
    ],
)
def test_a_class_that_is_not_there_is_mended_or_kept_on_kafka_connect(class_name: str, instead: str) -> None:
    found = _judged(transforms="a", transforms_a_type=class_name)["transforms.a.type"]
    assert (found.verdict, found.instead) == (Verdict.REFUSED, instead)


def test_a_setting_that_a_transformation_lacks_is_to_be_given() -> None:
    found = _judged(transforms="a", transforms_a_type="org.apache.kafka.connect.transforms.DropHeaders")
    assert found["transforms.a.headers"].instead == "Give a value."


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("transforms.private.predicate", False),
        ("predicates.tokens.pattern", False),
        ("transforms.mask.api.key", True),
        ("transforms.mask.vault.token.value", True),
        ("transforms.mask.password", True),
    ],
)
def test_the_alias_of_a_transformation_makes_no_secret(name: str, hidden: bool) -> None:
    assert (shown(name, "value") != "value") is hidden
