"""Answers as Kubernetes' API server does where Spark asks for pods: one namespace, the rights of one Role, and watches.

Objects that the server would refuse are refused here by the same schemas. What is not asked by Spark is not there.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
KINDS: Final = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "services": "Service",
    "persistentvolumeclaims": "PersistentVolumeClaim",
}
_PATH: Final = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?")
_REQUIREMENT: Final = re.compile(
    r"(?P<key>[\w./-]+)(?:(?P<is>==?|!=)(?P<value>[\w./-]*)| (?P<in>in|notin) \((?P<values>[^)]*)\))?"
)


@dataclass(frozen=True, slots=True)
class Event:
    """A change; `version` is the resourceVersion that it made."""

    version: int
    plural: str
    type: str
    object: Object


class Refused(Exception):
    """Answered with this status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class PodsApi:
    """Serves from `with` to its end at `url`.

    `rules`: those of a Role. `faults`: what a schema finds in an object. `created`, `deleted`: are told of pods.
    `refused`: what was asked in vain, each with the status of the answer.
    """

    def __init__(
        self, namespace: str, rules: Sequence[Mapping[str, Any]], faults: Callable[[str, Object], Sequence[str]]
    ) -> None:
        self.namespace = namespace
        self.created: Callable[[Object], None] = lambda _: None
        self.deleted: Callable[[Object], None] = lambda _: None
        self.refused: list[tuple[int, str]] = []
        self._allowed = {
            (verb, plural)
            for rule in rules
            if "" in rule["apiGroups"]
            for plural in rule["resources"]
            for verb in rule["verbs"]
        }
        self._faults = faults
        self._objects: dict[tuple[str, str], Object] = {}
        self._events: list[Event] = []
        self._versions = itertools.count(1)
        self._changed = threading.Condition(threading.RLock())
        self._ended = False
        api = self

        class Requests(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                length = int(self.headers["Content-Length"] or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                try:
                    found = api._answer(self.command, self.path, body)
                except Refused as refused:
                    api.refused.append((refused.status, f"{self.command} {self.path}: {refused}"))
                    self._send(refused.status, _status(refused.status, refused.reason, str(refused)))
                    return
                if not isinstance(found, Iterator):
                    self._send(201 if self.command == "POST" else 200, found)
                elif self.headers["Upgrade"]:
                    # As behind a proxy without WebSockets: the client asks again without.
                    self._send(200, {})
                else:
                    self._stream(found)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the base class calls them so

            def _send(self, status: int, body: Object) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def _stream(self, events: Iterator[Object]) -> None:
                self.close_connection = True
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for event in events:
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that goes away ends its watches."""

        self._server = Quiet(("127.0.0.1", 0), Requests)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def all(self, plural: str) -> list[Object]:
        """The objects of a kind now."""
        with self._changed:
            return [copy.deepcopy(each) for (kind, _), each in self._objects.items() if kind == plural]

    def add(self, plural: str, body: Object) -> Object:
        """Creates an object without being asked for it."""
        with self._changed:
            metadata = body.setdefault("metadata", {})
            if not metadata.get("name"):
                metadata["name"] = f"{metadata.get('generateName', '')}{uuid.uuid4().hex[:5]}"
            metadata |= {
                "namespace": self.namespace,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            }
            if (plural, metadata["name"]) in self._objects:
                raise Refused(409, "AlreadyExists", f'{plural} "{metadata["name"]}" already exists')
            body |= {"apiVersion": "v1", "kind": KINDS[plural]}
            return self._put("ADDED", plural, body)

    def change(self, plural: str, name: str, changes: Mapping[str, Any]) -> Object | None:
        """Merges changes into an object; None if it is gone."""
        with self._changed:
            found = self._objects.get((plural, name))
            return None if found is None else self._put("MODIFIED", plural, _merged(found, changes))

    def remove(self, plural: str, name: str) -> None:
        """Deletes an object, if it is there, without being asked for it."""
        with self._changed:
            if (plural, name) in self._objects:
                self._delete(plural, name)

    # Requests.

    def _answer(self, method: str, path: str, body: Any) -> Object | Iterator[Object]:
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        found = _PATH.fullmatch(parts.path)
        if found is None or found["namespace"] != self.namespace or found["plural"] not in KINDS:
            raise Refused(404, "NotFound", f"there is no {parts.path}")
        plural, name = found["plural"], found["name"]
        watch = query.get("watch") in ("true", "1")
        verb = _verb(method, name, watch)
        if (verb, plural) not in self._allowed:
            raise Refused(403, "Forbidden", f'cannot {verb} resource "{plural}" in the namespace "{self.namespace}"')
        if watch:
            return self._watched(plural, query)
        with self._changed:
            if name is not None:
                return self._of_one(verb, plural, name, body)
            if verb == "create":
                return self._create(plural, body)
            if verb == "list":
                return self._listed(plural, query)
            for each in self._chosen(plural, query):
                self._delete(plural, each["metadata"]["name"])
            return _status(200, "", "")

    def _of_one(self, verb: str, plural: str, name: str, body: Any) -> Object:
        if (plural, name) not in self._objects:
            raise Refused(404, "NotFound", f'{plural} "{name}" not found')
        if verb == "get":
            return self._objects[plural, name]
        if verb == "delete":
            return self._delete(plural, name)
        changed = body if verb == "update" else _patched(self._objects[plural, name], body)
        return self._put("MODIFIED", plural, changed)

    def _create(self, plural: str, body: Object) -> Object:
        if faults := self._faults(plural, body):
            raise Refused(422, "Invalid", f"{KINDS[plural]} is invalid: {'; '.join(faults)}")
        made = self.add(plural, body)
        if plural == "pods":
            self.created(copy.deepcopy(made))
        return made

    def _delete(self, plural: str, name: str) -> Object:
        gone = self._objects.pop((plural, name))
        self._tell("DELETED", plural, gone)
        if plural == "pods":
            self.deleted(gone)
        return gone

    def _listed(self, plural: str, query: Mapping[str, str]) -> Object:
        version = str(self._events[-1].version if self._events else 0)
        return {
            "apiVersion": "v1",
            "kind": f"{KINDS[plural]}List",
            "metadata": {"resourceVersion": version},
            "items": copy.deepcopy(self._chosen(plural, query)),
        }

    def _chosen(self, plural: str, query: Mapping[str, str]) -> list[Object]:
        return [each for (kind, _), each in self._objects.items() if kind == plural and selects(query, each)]

    def _watched(self, plural: str, query: Mapping[str, str]) -> Iterator[Object]:
        """Events as lines; a bookmark when nothing happens for a while, as Kubernetes sends it: a lost client is noticed.

        Spark's client ends its watch at an empty line, without a word. Spark would then list its pods each 30 s only.
        """
        since = int(query.get("resourceVersion") or 0)
        position = 0
        while not self._ended:
            with self._changed:
                new = self._events[position:]
                if not new:
                    self._changed.wait(2.0)
                    new = self._events[position:]
                position += len(new)
            yield from (
                {"type": each.type, "object": each.object}
                for each in new
                if each.version > since and each.plural == plural and selects(query, each.object)
            )
            if not new:
                version = str(self._events[position - 1].version if position else since)
                bookmark = {"apiVersion": "v1", "kind": KINDS[plural], "metadata": {"resourceVersion": version}}
                yield {"type": "BOOKMARK", "object": bookmark}

    def _put(self, kind: str, plural: str, body: Object) -> Object:
        self._objects[plural, body["metadata"]["name"]] = body
        self._tell(kind, plural, body)
        return copy.deepcopy(body)

    def _tell(self, kind: str, plural: str, body: Object) -> None:
        version = next(self._versions)
        body["metadata"]["resourceVersion"] = str(version)
        self._events.append(Event(version, plural, kind, copy.deepcopy(body)))
        self._changed.notify_all()


def selects(query: Mapping[str, str], found: Mapping[str, Any]) -> bool:
    """Whether a request's selectors choose an object."""
    metadata = found["metadata"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    for each in _REQUIREMENT.finditer(query.get("labelSelector", "")):
        value = labels.get(each["key"])
        if each["in"]:
            if (value in re.split(r",\s*", each["values"])) != (each["in"] == "in"):
                return False
        elif each["is"] is None:
            if value is None:
                return False
        elif (value == each["value"]) != (each["is"] != "!="):
            return False
    fields = [each.partition("=") for each in query.get("fieldSelector", "").split(",") if each]
    return all(_field(found, path) == value for path, _, value in fields)


def _field(found: Mapping[str, Any], path: str) -> Any:
    for part in path.split("."):
        found = found.get(part) or {}
    return found


def _verb(method: str, name: str | None, watch: bool) -> str:
    if method == "GET":
        return "watch" if watch else "get" if name else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}[method]


def _patched(found: Object, patch: Any) -> Object:
    if not isinstance(patch, list):
        return _merged(found, patch)
    changed = copy.deepcopy(found)
    for each in patch:
        *above, last = [part.replace("~1", "/").replace("~0", "~") for part in each["path"].split("/")[1:]]
        place = changed
        for part in above:
            place = place.setdefault(part, {})
        if each["op"] == "remove":
            place.pop(last, None)
        else:
            place[last] = each["value"]
    return changed


def _merged(found: Mapping[str, Any], changes: Mapping[str, Any]) -> Object:
    merged = copy.deepcopy(dict(found))
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merged(merged[name], value)
        else:
            merged[name] = value
    return merged


def _status(code: int, reason: str, message: str) -> Object:
    outcome = "Success" if code == 200 else "Failure"
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": outcome}
    return status | {"message": message, "reason": reason, "code": code}
