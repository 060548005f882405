"""Reads what is to be checked and tells which kind it is: worker, connectors, mm2.properties or Strimzi's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from mirror_connect.app.config.properties import UnreadableFile, content_of, located_properties_of
from mirror_connect.check.document import CLASS, CONNECTOR, MM2, WORKER, Document, UnknownDocument
from mirror_connect.check.json_lines import Node, read_json
from mirror_connect.check.judgement import Setting
from mirror_connect.check.strimzi import strimzi_documents
from mirror_connect.check.yaml_lines import read_yaml

YAML: Final = (".yaml", ".yml")
_OF_WORKERS: Final = (
    "group.id",
    "config.storage.topic",
    "offset.storage.topic",
    "offset.storage.file.filename",
    "key.converter",
    "value.converter",
)


def read_documents(path: Path) -> list[Document]:
    """Everything in a file. UnknownDocument, or UnreadableFile with the reason."""
    # Once: of a pipe, as a shell's `<(…)`, a second time would read nothing.
    content = content_of(path, "the file")
    if content.lstrip()[:1] in (b"{", b"["):
        return _of_json(path, content)
    if path.suffix in YAML:
        return _of_yaml(path, content)
    located = located_properties_of(content, path, what="the file")
    settings = {name: Setting(name, value, located.lines[name]) for name, value in located.values.items()}
    return [Document(_kind_of(path, settings), _name_of(path, settings), settings, located=located)]


def _kind_of(path: Path, settings: Mapping[str, Setting]) -> str:
    if CLASS in settings:
        return CONNECTOR
    if "clusters" in settings or any("->" in name for name in settings):
        return MM2
    if any(name in settings for name in _OF_WORKERS):
        return WORKER
    raise UnknownDocument(
        str(path),
        "neither connector.class nor clusters nor group.id is in it: it is no config of a connector, no mm2.properties and "
        "no worker's properties file",
    )


def _name_of(path: Path, settings: Mapping[str, Setting]) -> str:
    name = settings.get("name")
    return name.value if CLASS in settings and name is not None and name.value else path.name


def _of_json(path: Path, content: bytes) -> list[Document]:
    try:
        node = read_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UnreadableFile("the file", path, f"it isn't UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise UnreadableFile("the file", path, str(error)) from None
    found = list(_connectors(path, node, path.stem))
    if not found:
        raise UnknownDocument(
            str(path), 'there is no connector in it: give {"name": …, "config": {…}}, or the config alone'
        )
    return found


def _of_yaml(path: Path, content: bytes) -> list[Document]:
    try:
        found = [each for node in read_yaml(content.decode("utf-8")) for each in strimzi_documents(node)]
    except UnicodeDecodeError as error:
        raise UnreadableFile("the file", path, f"it isn't UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise UnreadableFile("the file", path, str(error)) from None
    if not found:
        raise UnknownDocument(
            str(path), "there is no KafkaConnector, KafkaConnect or KafkaMirrorMaker2 of Strimzi in it"
        )
    return found


def _connectors(path: Path, node: Node, name: str) -> Iterator[Document]:
    """Of one connector with name and config, of a config alone, of a list, or of GET /connectors?expand=info."""
    if isinstance(node.value, list):
        for number, item in enumerate(node.value, 1):
            yield from _connectors(path, item, f"{name}-{number}")
        return
    if not isinstance(node.value, dict):
        return
    members = node.value
    if CLASS in members:
        yield Document(CONNECTOR, _text(members.get("name")) or name, _settings(path, members))
    elif "config" in members and isinstance(members["config"].value, dict):
        named = _text(members.get("name")) or name
        settings = _settings(path, members["config"].value)
        if "name" not in settings:
            settings = {"name": Setting("name", named, members.get("name", node).line), **settings}
        yield Document(CONNECTOR, named, settings)
    elif "connectors" in members:
        yield from _connectors(path, members["connectors"], name)
    else:
        for key, member in members.items():
            info = member.value.get("info", member) if isinstance(member.value, dict) else member
            yield from _connectors(path, info, key)


def _settings(path: Path, members: Mapping[str, Node]) -> dict[str, Setting]:
    for name, node in members.items():
        if isinstance(node.value, dict | list):
            raise UnknownDocument(
                str(path), f"line {node.line}: the value of {name} must be text, a number or a boolean"
            )
    return {name: Setting(name, _text(node), node.line) for name, node in members.items()}


def _text(node: Node | None) -> str | None:
    return node.value if node is not None and isinstance(node.value, str) else None
