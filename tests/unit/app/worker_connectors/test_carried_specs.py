"""Specs for tasks without the worker's files: every client of a task has its stores in the spec."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deploy.local.tls_material import TlsMaterial, create_tls_material
from mirror_connect.app.worker_connectors.carried_specs import carried
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.settings import source_producer, target_producer
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.kafka_io.client.client_settings import connection_settings
from tests.fakes.source_spec import source_spec


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> TlsMaterial:
    return create_tls_material(tmp_path_factory.mktemp("stores"))


def stores(material: TlsMaterial, prefix: str = "") -> dict[str, str]:
    return {
        f"{prefix}bootstrap.servers": "b:1",
        f"{prefix}security.protocol": "SSL",
        f"{prefix}ssl.truststore.location": str(material.truststore_jks),
        f"{prefix}ssl.truststore.password": material.password,
        f"{prefix}ssl.keystore.location": str(material.client.jks),
        f"{prefix}ssl.keystore.password": material.password,
    }


def spec_of(material: TlsMaterial, **config: str) -> TaskSpec:
    client = stores(material)
    spec = source_spec(client, client, [])
    named = {name.replace("_", "."): value for name, value in config.items()}
    layers = {**stores(material, "source.cluster."), **stores(material, "target.cluster.")}
    return replace(
        spec,
        config={**spec.config, "emit.offset-syncs.enabled": "true", **layers, **named},
        source_admin=client,
        target_admin=client,
        target_consumer=client,
    )


def test_no_client_of_a_task_needs_a_file_or_knows_a_password(material: TlsMaterial) -> None:
    spec = carried(spec_of(material))
    told = str(spec.to_json())
    assert str(material.client.jks.parent) not in told
    assert material.password not in told
    for client in (spec.source, spec.target, spec.source_admin, spec.target_admin, spec.target_consumer):
        assert connection_settings(client, "test").ssl_context is not None


@pytest.mark.parametrize("place", ["source", "target"])
def test_the_producer_of_offset_syncs_has_them_in_the_config_whatever_the_layers(
    material: TlsMaterial, tmp_path: Path, place: str
) -> None:
    other = create_tls_material(tmp_path / "other")
    given = spec_of(material)
    # The store is another one, its password is that of the layer below.
    above = {
        "offset-syncs.topic.location": place,
        f"{place}.producer.ssl.keystore.location": str(other.client.jks),
    }
    spec = carried(replace(given, config={**given.config, **above}))
    found = (source_producer if place == "source" else target_producer)(spec.config)
    assert connection_settings(found, "test", "producer").ssl_context is not None
    chain = found["ssl.keystore.certificate.chain"]
    assert chain.split("-----END")[0] in other.client.pem.read_text()
    assert found["bootstrap.servers"] == "b:1"
    assert material.password not in str(spec.config)


def test_a_client_that_no_task_makes_ends_no_task(material: TlsMaterial) -> None:
    given = spec_of(material)
    broken = {"emit.offset-syncs.enabled": "false", "source.producer.ssl.keystore.location": "/nowhere"}
    assert carried(replace(given, config={**given.config, **broken})).source
    with pytest.raises(ConfigError):
        carried(replace(given, config={**given.config, **broken, "emit.offset-syncs.enabled": "true"}))
