"""A worker's properties are judged by making its settings of them, until nothing is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_connect.app.config.properties import read_properties
from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.check.judgement import Judgement, Verdict
from mirror_connect.check.worker_judge import judge_worker, override_policy
from mirror_connect.connectors.errors import ConfigError
from tests.paths import ROOT

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
PROVIDERS = "org.apache.kafka.common.config.provider."
FILES = sorted((ROOT / "tests" / "fixtures" / "check").glob("*-worker.properties"))
WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": BYTES,
    "value.converter": BYTES,
}


def _judged(**settings: str) -> dict[str, Judgement]:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return {each.name: each for each in judge_worker({**WORKER, **given})}


def _of(verdict: Verdict, **settings: str) -> set[str]:
    return {name for name, each in _judged(**settings).items() if each.verdict is verdict}


def test_a_plain_worker_is_the_same() -> None:
    assert _of(Verdict.SAME) == set(WORKER)


def test_a_file_that_can_not_be_looked_for_is_not_judged() -> None:
    # The system refuses to look there, as into a folder of another user.
    assert _of(Verdict.NOT_JUDGED, ssl_truststore_location="/" + "x" * 300, security_protocol="SSL") == {
        "ssl.truststore.location"
    }


def test_all_that_is_refused_is_told_although_the_worker_ends_at_the_first() -> None:
    assert _of(
        Verdict.REFUSED,
        exactly_once_source_support="perhaps",
        rest_extension_classes="io.confluent.connect.security.ConnectSecurityExtension",
        connector_client_config_override_policy="Some",
        session_timeout_ms="soon",
        security_protocol="SASL_SSL",
        sasl_mechanism="GSSAPI",
        spark_master="yarn-client",
        listeners="ftp://:1",
        producer_acks="some",
        header_converter="io.confluent.connect.avro.AvroConverter",
    ) == {
        "exactly.once.source.support",
        "rest.extension.classes",
        "connector.client.config.override.policy",
        "session.timeout.ms",
        "sasl.mechanism",
        "spark.master",
        "listeners",
        "producer.acks",
        "header.converter",
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_worker_loads_a_real_file_without_what_is_refused_and_none_of_that_alone(path: Path) -> None:
    given = read_properties(path)
    judged = judge_worker(given)
    refused = {each.name for each in judged if each.verdict is Verdict.REFUSED}
    unseen = {each.name for each in judged if each.verdict is Verdict.NOT_JUDGED}
    # The values that this machine does not see; an https listener needs its key store.
    seen = {
        name: value
        for name, value in given.items()
        if name not in unseen and not name.startswith(("listeners", "rest.advertised."))
    }
    rest = {**WORKER, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    rest |= {name: value for name, value in seen.items() if name not in refused}
    rest["sasl.jaas.config"] = PLAIN
    assert worker_config(rest)
    for name in refused:
        with pytest.raises(ConfigError) as caught:
            worker_config({**rest, name: given[name]})
        assert name in str(caught.value)


def test_a_config_provider_without_a_class_has_no_effect() -> None:
    given = {"config.providers": "vault, env", "config.providers.env.class": f"{PROVIDERS}EnvVarConfigProvider"}
    (judged,) = (each for each in judge_worker({**WORKER, **given}) if each.verdict is not Verdict.SAME)
    assert (judged.name, judged.verdict) == ("config.providers", Verdict.DIFFERENT)
    assert judged.instead == "Set config.providers.vault.class."


def test_missing_properties_are_refused() -> None:
    assert {each.name for each in judge_worker({"group.id": "g"}) if each.verdict is Verdict.REFUSED} == set(WORKER) - {
        "group.id"
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offset.flush.interval.ms", "10000"),
        ("plugin.path", "/usr/share/java"),
        ("connect.protocol", "sessioned"),
        ("producer.compression.type", "zstd"),
        ("producer.max.in.flight.requests.per.connection", "5"),
        ("consumer.interceptor.classes", "x.Y"),
        ("sasl.kerberos.service.name", "kafka"),
        ("rest.port", "8083"),
        ("key.converter.schemas.enable", "false"),
    ],
)
def test_what_means_something_else_is_told(name: str, value: str) -> None:
    judged = {each.name: each for each in judge_worker({**WORKER, name: value})}[name]
    assert judged.verdict is Verdict.DIFFERENT
    assert judged.text


@pytest.mark.parametrize("name", ["rest.port", "rest.host.name"])
def test_a_name_of_an_earlier_release_gets_what_replaced_it(name: str) -> None:
    judged = {each.name: each for each in judge_worker({**WORKER, name: "1"})}[name]
    assert (judged.verdict, judged.instead) == (Verdict.DIFFERENT, "Write listeners.")


@pytest.mark.parametrize(
    "name", ["offset.storage.partitons", "config.storage.replication.facto", "status.storage.topc"]
)
def test_a_typo_behind_the_prefix_of_a_topic_gets_the_likely_name(name: str) -> None:
    judged = {each.name: each for each in judge_worker({**WORKER, name: "3"})}[name]
    assert judged.verdict is Verdict.DIFFERENT
    assert judged.instead.startswith(f"Did you mean {name.partition('.')[0]}.storage.")


def test_files_that_are_not_here_and_what_depends_on_them_are_not_judged() -> None:
    found = _judged(
        listeners="https://:8443",
        listeners_https_ssl_keystore_location="/nowhere/keystore.jks",
        listeners_https_ssl_keystore_password="hush",
        security_protocol="SASL_SSL",
        ssl_truststore_location="/nowhere/truststore.jks",
        sasl_mechanism="GSSAPI",
    )
    unseen = {name for name, each in found.items() if each.verdict is Verdict.NOT_JUDGED}
    assert unseen == {"listeners.https.ssl.keystore.location", "ssl.truststore.location"}
    assert {name for name, each in found.items() if each.verdict is Verdict.REFUSED} == {"sasl.mechanism"}


def test_a_config_provider_is_asked_where_its_file_is(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("topic=o\nwrong=many\n")
    provider = {
        "config_providers": "file",
        "config_providers_file_class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    reference = f"${{file:{tmp_path}/secrets:%s}}"
    found = _judged(**provider, offset_storage_topic=reference % "topic", offset_flush_interval_ms=reference % "wrong")
    assert found["offset.storage.topic"].verdict is Verdict.SAME
    assert found["offset.flush.interval.ms"].verdict is Verdict.REFUSED
    assert "many" not in found["offset.flush.interval.ms"].text
    found = _judged(**provider, offset_storage_topic="${file:/nowhere/secrets:topic}", session_timeout_ms="x")
    assert found["offset.storage.topic"].verdict is Verdict.NOT_JUDGED
    assert found["session.timeout.ms"].verdict is Verdict.REFUSED


def test_a_reference_that_can_not_be_read_here_hides_none_that_can(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("wrong=many\n")
    package = "org.apache.kafka.common.config.provider"
    found = _judged(
        config_providers="file,dir",
        config_providers_file_class=f"{package}.FileConfigProvider",
        config_providers_dir_class=f"{package}.DirectoryConfigProvider",
        group_id="${file:/nowhere/secrets:group}",
        client_id=f"${{file:{tmp_path}/secrets:typo}}",
        plugin_path=f"${{dir:{tmp_path}/nowhere:path}}",
        offset_flush_interval_ms=f"${{file:{tmp_path}/secrets:wrong}}",
    )
    assert [found[name].verdict for name in ("group.id", "client.id", "plugin.path", "offset.flush.interval.ms")] == [
        Verdict.NOT_JUDGED,
        Verdict.DIFFERENT,
        Verdict.NOT_JUDGED,
        Verdict.REFUSED,
    ]
    assert "/nowhere/secrets" in found["group.id"].text
    assert "where the worker runs" not in found["client.id"].instead


def test_a_provider_that_is_not_here_is_refused_and_its_values_are_not_judged() -> None:
    found = _judged(
        config_providers="aws",
        config_providers_aws_class="com.example.Secrets",
        group_id="${aws:x:group}",
        producer_acks="2",
    )
    assert found["config.providers.aws.class"].verdict is Verdict.REFUSED
    assert found["group.id"].verdict is Verdict.NOT_JUDGED
    assert found["producer.acks"].verdict is Verdict.REFUSED


def test_the_policy_for_overrides() -> None:
    allowlist = {"connector.client.config.override.allowlist": "acks"}
    policy = override_policy({"connector.client.config.override.policy": "Allowlist", **allowlist})
    assert policy is not None
    assert policy.complaint("acks") is None
    assert policy.complaint("linger.ms")
    assert override_policy({"connector.client.config.override.policy": "My"}) is None


def test_a_file_of_standalone_mode_is_judged_as_one() -> None:
    standalone = {"bootstrap.servers": "a:1", "offset.storage.file.filename": "/tmp/o", "key.converter": BYTES}
    found = {each.name: each.verdict for each in judge_worker(standalone)}
    assert found["value.converter"] is Verdict.REFUSED
    assert "group.id" not in found
    assert found["offset.storage.file.filename"] is found["bootstrap.servers"] is Verdict.SAME
    idle = {each.name: each.verdict for each in judge_worker({**standalone, "offset.storage.topic": "o"})}
    assert idle["offset.storage.topic"] is Verdict.DIFFERENT
