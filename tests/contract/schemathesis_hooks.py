"""What `schemathesis run` does here beside its own.

Some bodies are made good, so that not all of them end at a check, and two checks know of answers without a body.
Read by schemathesis (SCHEMATHESIS_HOOKS), never by pytest.
"""

from __future__ import annotations

import json
import zlib
from http import HTTPStatus
from typing import Any, Final

import schemathesis
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

_CONFIG: Final = {
    "connector.class": "MirrorHeartbeatConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "heartbeats.topic.replication.factor": "1",
    # A task of each connector that is made up would want a place in Spark.
    "emit.heartbeats.enabled": "false",
}
_PARTITION: Final = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
_ALWAYS_A_BODY: Final = ("GET", "POST", "HEAD")
_NAMES: Final = ("running", "paused", "stopped", "without-tasks")


@schemathesis.hook
def map_body(context: schemathesis.HookContext, body: Any) -> Any:
    """The generated body, or one that is good and holds what was generated where that may be."""
    # By what it is, and not by chance: the same seed gives the same requests.
    turn = zlib.crc32(json.dumps(body, sort_keys=True, default=repr).encode(errors="replace")) % 10
    label = context.operation.label if context.operation is not None else ""
    if label in ("PUT /connectors/{name}/config", "PUT /connector-plugins/{plugin}/config/validate"):
        return _with_config(body, turn)
    if label == "PATCH /connectors/{name}/config" and turn < 4 and isinstance(body, dict):
        return {f"x.{name}": value for name, value in body.items() if isinstance(name, str)}
    if label == "POST /connectors" and turn < 7 and isinstance(body, dict):
        state = ("RUNNING", "PAUSED", "STOPPED", None)[turn % 4]
        name = body.get("name") if turn < 4 else _NAMES[turn % 4]
        return {"name": name, "config": _with_config(body.get("config"), turn), "initial_state": state}
    if label == "PATCH /connectors/{name}/offsets" and turn < 5:
        return {"offsets": [{"partition": _PARTITION, "offset": {"offset": 0} if turn % 2 else None}]}
    return body


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: Any, _: Any) -> None:
    """A connector of the contract's own example finds no cluster: it gives up soon, else each restart takes five seconds."""
    if isinstance(case.body, dict) and case.body.get("source.cluster.bootstrap.servers") == "localhost:9092":
        case.body = {**case.body, "admin.timeout.ms": "500"}


@schemathesis.check
def content_type_of_content(context: Any, response: Any, case: Any) -> bool | None:
    """`content_type_conformance`, but for a refusal without a body: it has no content, so it has no type of one."""
    return None if _without_content(response, case) else content_type_conformance(context, response, case)


@schemathesis.check
def schema_of_content(context: Any, response: Any, case: Any) -> bool | None:
    """`response_schema_conformance`, but for a refusal without a body, of which the contract can only say so in words."""
    return None if _without_content(response, case) else response_schema_conformance(context, response, case)


def _without_content(response: Any, case: Any) -> bool:
    refused = response.status_code == HTTPStatus.BAD_REQUEST and case.method not in _ALWAYS_A_BODY
    return bool(refused and not response.content and "content-type" not in response.headers)


def _with_config(body: Any, turn: int) -> Any:
    return {**body, **_CONFIG} if turn < 7 and isinstance(body, dict) else body
