"""Every property in the tables of clients changes a client that is made here, or is named in a line to its user.

The tests walk the tables, so that no new property is forgotten, and search the code for the use of each setting.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import mirror_connect.kafka_io
import mirror_connect.spark_jobs
from mirror_connect.connectors.config.table import Key
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client import client_settings, copier_settings
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, Kind
from mirror_connect.kafka_io.client.client_settings import ConnectionSettings, connection_settings, librdkafka_config
from mirror_connect.kafka_io.client.copier_settings import (
    CONSUMER_HONOURED,
    PRODUCER_HONOURED,
    ConsumerSettings,
    ProducerSettings,
    consumer_settings,
    notices,
    producer_settings,
)
from mirror_connect.kafka_io.client.idle_properties import SECURITY, SECURITY_IN_EFFECT, SILENT
from mirror_connect.kafka_io.consumer.fetch_settings import FetchSettings

BASE: Final = {"bootstrap.servers": "a:1"}
# One of these is another value than any default, of whatever type; what a validator refuses is left out.
VALUES: Final = (
    "7",
    "1001",
    "20000",
    "60001",
    "0",
    "1",
    "true",
    "false",
    "none",
    "earliest",
    "read_committed",
    "gzip",
    "DEBUG",
    "CONSUMER",
    "resolve_canonical_bootstrap_servers_only",
    "b:2",
    "x",
    "org.apache.kafka.connect.storage.StringConverter",
    "ES256",
)
KINDS: Final[tuple[Kind, ...]] = ("admin", "consumer", "producer")
PROPERTIES: Final = [
    pytest.param(kind, key, id=f"{kind}-{key.name}")
    for kind in KINDS
    for key in CLIENT_KEYS[kind]
    if key.name not in SECURITY.keys
]
SECURITY_IDLE: Final = sorted(SECURITY.keys.keys() - SECURITY_IN_EFFECT)


def others(kind: Kind, key: Key) -> list[str]:
    """Values that the property may have, other than its default."""
    found = []
    for value in VALUES:
        with contextlib.suppress(ConfigError):
            if CLIENT_KEYS[kind].parse_all({**BASE, key.name: value})[key.name] != key.default:
                found.append(value)
    return found


def changes(make: Callable[[dict[str, str]], object], key: Key, values: list[str]) -> bool:
    """Whether one of the values changes the result, or is refused."""
    plain = make(dict(BASE))
    for value in values:
        try:
            if make({**BASE, key.name: value}) != plain:
                return True
        except ConfigError:
            return True
    return False


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(client_settings, "_warned", set())
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.mark.parametrize(("kind", "key"), PROPERTIES)
def test_a_property_changes_the_clients_of_librdkafka_or_is_named(
    kind: Kind, key: Key, said: pytest.LogCaptureFixture
) -> None:
    values = others(kind, key)
    assert values
    has_effect = changes(lambda given: librdkafka_config(given, kind), key, values)
    if kind == "admin":  # it has requests of its own, too
        has_effect = has_effect or changes(lambda given: connection_settings(given, "c", kind), key, values)
    named = f"These {kind} properties have no effect here: {key.name}" in said.messages
    assert (has_effect, named, key.name in SILENT and not has_effect).count(True) == 1


@pytest.mark.parametrize(("kind", "key"), [each for each in PROPERTIES if each.values[0] != "admin"])
def test_a_property_changes_a_copier_or_is_named(kind: Kind, key: Key) -> None:
    def made(given: dict[str, str]) -> object:
        wire = connection_settings(given, "c", kind)
        if kind == "producer":
            return wire, producer_settings(given)
        return wire, consumer_settings(given), FetchSettings.of(given)

    values = others(kind, key)
    named = bool(notices(*([{key.name: values[0]}, {}] if kind == "consumer" else [{}, {key.name: values[0]}])))
    honoured = key.name in (CONSUMER_HONOURED if kind == "consumer" else PRODUCER_HONOURED)
    if key.name == "acks":  # one value has an effect, and a notice names the others
        assert (named, honoured) == (True, True)
        return
    assert (honoured, named, key.name in copier_settings._SILENT).count(True) == 1
    assert changes(made, key, values) or not honoured


@pytest.mark.parametrize("name", SECURITY_IDLE)
def test_a_security_property_without_effect_is_named_by_both_clients(name: str, said: pytest.LogCaptureFixture) -> None:
    value = others("consumer", SECURITY.keys[name])[0]
    for make in (lambda given: connection_settings(given, "c"), lambda given: librdkafka_config(given, "consumer")):
        client_settings._warned.clear()
        said.clear()
        make({**BASE, name: value})
        assert said.messages == [f"These consumer properties have no effect here: {name}"]


def test_a_property_with_kafkas_default_draws_no_line(said: pytest.LogCaptureFixture) -> None:
    connection_settings({**BASE, "ssl.protocol": "TLSv1.3", "sasl.login.refresh.buffer.seconds": "300"}, "c")
    librdkafka_config({**BASE, "metrics.num.samples": "2"}, "admin")
    assert said.messages == []


# What settings hold is used.


@pytest.mark.parametrize("settings", [ConnectionSettings, FetchSettings, ProducerSettings, ConsumerSettings])
def test_every_member_of_settings_is_read_by_somebody(settings: type[Any]) -> None:
    members = {each.name for each in dataclasses.fields(settings)}
    assert members - set(attributes_read()) == set()


def attributes_read() -> Iterator[str]:
    """Names of the settings' attributes that the code of clients and copiers reads."""
    for package in (mirror_connect.kafka_io, mirror_connect.spark_jobs):
        for path in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Attribute) and "settings" in ast.unparse(node.value):
                    yield node.attr
