"""The connectors' files on the command line of a standalone worker.

As in Kafka (ConnectStandalone.parseConnectorConfigurationFile), the content tells the form, not the name: a JSON object of
settings, a JSON object with name, config and initial_state, or properties. Each needs a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mirror_connect.app.config.properties import UnreadableFile, content_of, properties_of
from mirror_connect.app.errors import BadRequest, ConnectorFileRefused
from mirror_connect.app.herder.lifecycle import INITIAL_STATES, TargetState
from mirror_connect.app.rest.json_bodies import config_from, parse_json, text_of
from mirror_connect.connectors.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """A connector to create. `repr` shows no setting: some are logins."""

    path: str
    name: str
    config: Mapping[str, str | None] = field(repr=False)
    initial_state: TargetState | None = None


def read_connector_files(paths: Sequence[str]) -> list[ConnectorFile]:
    """All files of the command line, in their order. ConnectorFileRefused, also for a second one of a name."""
    found: dict[str, ConnectorFile] = {}
    for path in paths:
        file = read_connector_file(path)
        if file.name in found:
            first = found[file.name].path
            raise ConnectorFileRefused(path, f"its name {file.name} is that of {first}; each connector needs its own")
        found[file.name] = file
    return list(found.values())


def read_connector_file(path: str, name: str | None = None) -> ConnectorFile:
    """ConnectorFileRefused names the file, what is wrong with it and where, without a value of it.

    `name`: for a connector whose file has none. Kafka's standalone worker takes no such file.
    """
    try:
        content = content_of(path, "the connector's file")
    except UnreadableFile as error:
        raise ConnectorFileRefused(path, error.problem) from None
    return connector_of(content, path, name)


def connector_of(content: bytes, path: str, name: str | None = None) -> ConnectorFile:
    """As `read_connector_file`, of a file's content."""
    try:
        # Kafka reads as properties whatever is no JSON. A file that begins as JSON was meant to be.
        if content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
            return _of_json(path, parse_json(content), name)
        return _named(path, dict(properties_of(content, path)), None, name)
    except (BadRequest, ConfigError) as error:
        raise ConnectorFileRefused(path, str(error).replace("The request body", "it")) from None


def _of_json(path: str, value: Any, default: str | None) -> ConnectorFile:
    if not isinstance(value, dict):
        raise BadRequest("it must be a JSON object with name and config, or of settings alone")
    if not isinstance(value.get("config"), dict):
        return _named(path, config_from(value, "it"), None, default)
    config = config_from(value["config"], "The member config")
    name = text_of(value.get("name"), "The member name")
    if name is None or config.get("name", name) != name:
        raise BadRequest(f"the name in config ({config.get('name')}) is not the member name ({name})")
    return _named(path, {**config, "name": name}, _initial_state(value.get("initial_state")))


def _named(
    path: str, config: Mapping[str, str | None], state: TargetState | None, default: str | None = None
) -> ConnectorFile:
    name = config.get("name", default)
    if not name:
        raise BadRequest("it has no name; a connector's file needs one")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadRequest("its name holds half of a surrogate pair, which no text has") from None
    return ConnectorFile(path, name, config, state)


def _initial_state(value: Any) -> TargetState | None:
    if value is None:
        return None
    text = text_of(value, "The member initial_state") or ""
    if text.upper() not in INITIAL_STATES:
        raise BadRequest(f"there is no initial_state {text}; {', '.join(INITIAL_STATES)} are known")
    return INITIAL_STATES[text.upper()]
