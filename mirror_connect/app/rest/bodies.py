"""The answers on the wire, with Kafka Connect's member names and order; openapi.yaml is made from their texts.

Members that are not set are left out (`trace`), others may be null (`version`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, RootModel

from mirror_connect.app.herder.log_levels import LoggerLevel
from mirror_connect.app.herder.plans import Planned
from mirror_connect.app.herder.previews import Previewed
from mirror_connect.app.herder.views import (
    Config,
    ConnectorInfo,
    ConnectorStatus,
    Health,
    PluginInfo,
    ServerInfo,
    StateInfo,
)
from mirror_connect.app.planning.plan import Plan
from mirror_connect.app.planning.preview import Preview
from mirror_connect.connectors.task_protocol import TaskId


class Body(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(frozen=True)


class ErrorBody(Body):
    """Every error of a resource."""

    error_code: int = Field(examples=[404])
    message: str = Field(examples=["Connector orders not found"])


class RefusalBody(Body):
    """Jetty's answer to a request that reaches no resource, if the client accepts only JSON."""

    message: str = Field(examples=["Bad Request"])
    url: str
    status: str = Field(examples=["400"])


class ServerInfoBody(Body):
    """GET /."""

    version: str = Field(examples=["4.3.1"])
    commit: str
    kafka_cluster_id: str

    @classmethod
    def of(cls, info: ServerInfo) -> ServerInfoBody:
        """From the herder's answer."""
        return cls(version=info.version, commit=info.commit, kafka_cluster_id=info.kafka_cluster_id)


class HealthBody(Body):
    """GET /health."""

    status: str = Field(examples=["healthy"])
    message: str

    @classmethod
    def of(cls, health: Health) -> HealthBody:
        """From the herder's answer."""
        return cls(status=health.status, message=health.message)


class TaskIdBody(Body):
    """A task."""

    connector: str
    task: int

    @classmethod
    def of(cls, task: TaskId) -> TaskIdBody:
        """From the id."""
        return cls(connector=task.connector, task=task.task)


class ConnectorInfoBody(Body):
    """A connector as configured."""

    name: str
    config: dict[str, str | None]
    tasks: list[TaskIdBody]
    type: str = Field(examples=["source"])

    @classmethod
    def of(cls, info: ConnectorInfo) -> ConnectorInfoBody:
        """From the herder's answer."""
        tasks = [TaskIdBody.of(task) for task in info.tasks]
        return cls(name=info.name, config=dict(info.config), tasks=tasks, type=info.type)


class StateBody(Body):
    """The state of a connector instance; `trace` says why it failed, or what it waits for."""

    state: str = Field(examples=["RUNNING"])
    worker_id: str = Field(examples=["127.0.0.1:8083"])
    version: str | None
    trace: str | None = None


class TaskStateBody(Body):
    """The state of a task."""

    id: int
    state: str
    worker_id: str
    version: str | None
    trace: str | None = None

    @classmethod
    def of(cls, number: int, state: StateInfo) -> TaskStateBody:
        """From the herder's answer."""
        return cls(id=number, **_state(state))


class ConnectorStatusBody(Body):
    """The status of a connector."""

    name: str
    connector: StateBody
    tasks: list[TaskStateBody]
    type: str

    @classmethod
    def of(cls, status: ConnectorStatus) -> ConnectorStatusBody:
        """From the herder's answer."""
        tasks = [TaskStateBody.of(number, state) for number, state in status.tasks.items()]
        return cls(name=status.name, connector=StateBody(**_state(status.connector)), tasks=tasks, type=status.type)


class TaskInfoBody(Body):
    """A task as configured."""

    id: TaskIdBody
    config: dict[str, str | None]

    @classmethod
    def of(cls, task: TaskId, config: Config) -> TaskInfoBody:
        """From the herder's answer."""
        return cls(id=TaskIdBody.of(task), config=dict(config))


class TasksBody(RootModel[list[TaskInfoBody]]):
    """GET …/tasks."""


class ExpandedBody(Body):
    """One connector of GET /connectors with `expand`; only the members that the request names."""

    status: ConnectorStatusBody | None = None
    info: ConnectorInfoBody | None = None


class TopicsBody(Body):
    """The topics of one connector."""

    topics: list[str]


class OffsetBody(Body):
    """A source partition and its committed offset; the connector defines their members."""

    partition: dict[str, Any] = Field(examples=[{"cluster": "A", "partition": 0, "topic": "orders"}])
    offset: dict[str, Any] = Field(examples=[{"offset": 41}])


class OffsetsBody(Body):
    """GET …/offsets."""

    offsets: list[OffsetBody]


class NewOffsetBody(Body):
    """An offset to set, or null to remove it. Parsed in app/rest/offsets.py, with numbers as written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition: dict[str, Any] | None
    offset: dict[str, Any] | None


class MessageBody(Body):
    """The answer to a change of offsets."""

    message: str


class LoggerLevelBody(Body):
    """The level of a logger; `last_modified` in ms since the epoch."""

    level: str = Field(examples=["INFO"])
    last_modified: int | None

    @classmethod
    def of(cls, found: LoggerLevel) -> LoggerLevelBody:
        """From the herder's answer."""
        return cls(level=found.level, last_modified=found.last_modified)


class LoggersBody(RootModel[dict[str, LoggerLevelBody]]):
    """GET /admin/loggers."""

    @classmethod
    def of(cls, levels: Mapping[str, LoggerLevel]) -> LoggersBody:
        """From the herder's answer."""
        return cls({name: LoggerLevelBody.of(found) for name, found in levels.items()})


class PluginBody(Body):
    """A connector class."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)

    class_name: str = Field(alias="class", examples=["org.apache.kafka.connect.mirror.MirrorSourceConnector"])
    type: str
    version: str

    @classmethod
    def of(cls, plugin: PluginInfo) -> PluginBody:
        """From the herder's answer."""
        return cls(**{"class": plugin.class_name}, type=plugin.type, version=plugin.version)


class PluginsBody(RootModel[list[PluginBody]]):
    """GET /connector-plugins."""

    @classmethod
    def of(cls, plugins: Iterable[PluginInfo]) -> PluginsBody:
        """From the herder's answer."""
        return cls([PluginBody.of(plugin) for plugin in plugins])


class DefinitionBody(Body):
    """The definition of a setting."""

    name: str
    type: str = Field(examples=["STRING"])
    required: bool
    default_value: str | None
    importance: str = Field(examples=["HIGH"])
    documentation: str
    group: str | None
    order_in_group: int
    width: str = Field(examples=["NONE"])
    display_name: str
    dependents: list[str]


class SettingValueBody(Body):
    """The validation of a setting's value."""

    name: str
    value: str | None
    recommended_values: list[str]
    errors: list[str]
    visible: bool


class ValidatedSettingBody(Body):
    """A validated setting; without a definition if the name is unknown."""

    definition: DefinitionBody | None
    value: SettingValueBody


class ValidationBody(Body):
    """PUT …/config/validate."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ValidatedSettingBody]


class PlanBody(Body):
    """PUT …/config/plan. `errors`: all for which the config would be refused; `plan` is null if there are any."""

    validation: ValidationBody
    errors: list[str]
    plan: Plan | None

    @classmethod
    def json_of(cls, planned: Planned) -> dict[str, Any]:
        """The answer. A plan of 10,000 partitions is not validated again."""
        plan = None if planned.plan is None else planned.plan.as_json()
        return {"validation": planned.validation, "errors": planned.errors, "plan": plan}


class PreviewBody(Body):
    """POST …/config/preview. `errors`: all for which the config would be refused; `preview` is null if there are any."""

    validation: ValidationBody
    errors: list[str]
    preview: Preview | None

    @classmethod
    def json_of(cls, previewed: Previewed) -> dict[str, Any]:
        """The answer."""
        preview = None if previewed.preview is None else previewed.preview.as_json()
        return {"validation": previewed.validation, "errors": previewed.errors, "preview": preview}


# A small config to copy from the page: people try this first.
SOURCE_CONFIG: Final[dict[str, str]] = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "localhost:9092",
    "topics": "orders.*",
    "tasks.max": "2",
}


class CreateBody(Body):
    """POST /connectors. Parsed in app/rest/json_bodies.py: numbers and booleans become text as written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    config: dict[str, str | float | bool] = Field(examples=[SOURCE_CONFIG])
    initial_state: str | None = Field(default=None, examples=["RUNNING", "PAUSED", "STOPPED"])


def _state(state: StateInfo) -> dict[str, Any]:
    found = {"state": state.state, "worker_id": state.worker_id, "version": state.version}
    return found if state.trace is None else {**found, "trace": state.trace}
