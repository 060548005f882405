"""/connector-plugins … over a real socket, as Kafka Connect 4.3.1 was seen to answer."""

from __future__ import annotations

import httpx
import pytest

from tests.fakes.connect_worker import SOURCE, FakeWorker, source_config
from tests.fakes.rest_answers import error


async def test_the_plugins_are_listed(client: httpx.AsyncClient) -> None:
    plugins = (await client.get("/connector-plugins")).json()
    assert {"class": SOURCE, "type": "source", "version": "4.3.1"} in plugins
    assert {plugin["type"] for plugin in plugins} == {"source"}


@pytest.mark.parametrize("flag", ["false", "banana"])
async def test_plugins_that_are_no_connectors_are_listed_behind_them_if_asked_for(
    client: httpx.AsyncClient, flag: str
) -> None:
    plugins = (await client.get(f"/connector-plugins?connectorsOnly={flag}")).json()
    converter = {"class": "org.apache.kafka.connect.converters.ByteArrayConverter", "version": "4.3.1"}
    assert {**converter, "type": "converter"} in plugins[3:]
    assert {**converter, "type": "header_converter"} in plugins[3:]


@pytest.mark.parametrize("plugin", [SOURCE, "MirrorSourceConnector", "MirrorSource"])
async def test_a_plugin_tells_its_settings(client: httpx.AsyncClient, plugin: str) -> None:
    settings = (await client.get(f"/connector-plugins/{plugin}/config?version=4.3.1")).json()
    assert settings[0]["name"] == "name"


async def test_a_broken_version_of_a_plugin_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.get("/connector-plugins/MirrorSource/config?version=%5Bx")
    assert (answer.status_code, answer.json()) == (400, error(400, "Invalid version specification: [x"))


async def test_a_config_is_validated_and_nothing_stored(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    answer = await client.put("/connector-plugins/MirrorSource/config/validate", json=source_config(tasks__max="abc"))
    assert (answer.status_code, answer.json()["name"]) == (200, SOURCE)
    wrong = {
        each["value"]["name"]: each["value"]["errors"] for each in answer.json()["configs"] if each["value"]["errors"]
    }
    assert set(wrong) == {"name", "tasks.max"}
    assert worker.written() == []


async def test_a_validated_secret_is_quoted_as_its_reference(client: httpx.AsyncClient) -> None:
    config = source_config(topics="${file:/secrets:password}", name="a")
    answer = await client.put("/connector-plugins/MirrorSource/config/validate", json=config)
    assert "hunter2" not in answer.text
    assert "${file:/secrets:password}" in answer.text


async def test_a_validated_class_has_to_fit_the_path(client: httpx.AsyncClient) -> None:
    answer = await client.put("/connector-plugins/Nope/config/validate", json=source_config())
    assert answer.json() == error(400, f"Included connector type {SOURCE} does not match request type Nope")
