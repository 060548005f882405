"""Makes a report of documents: a finding for each property, the links, and what could not be seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mirror_connect.app.config.allowed_paths import LookupPaths
from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.herder.client_properties import OverridePolicy
from mirror_connect.check.connector_judge import judge_connector
from mirror_connect.check.document import CONNECTOR, MM2, WORKER, Document
from mirror_connect.check.documents import YAML, read_documents
from mirror_connect.check.judgement import Judgement, shown
from mirror_connect.check.links import DEFAULT_WORKER, connector_link
from mirror_connect.check.mm2_judge import Mm2File
from mirror_connect.check.report import Finding, Part, Report, VerifyLink
from mirror_connect.check.running_worker import ask
from mirror_connect.check.worker_judge import judge_worker, override_policy, support_of

UNSEEN: Final = "REST does not show the worker's own properties: check its properties file, too."


def check_file(path: str, worker: str = DEFAULT_WORKER, user: str | None = None) -> Report:
    """Of a file. `worker`, `user`: where its connectors run today. UnknownDocument, UnreadableFile."""
    documents = read_documents(Path(path))
    if documents[0].kind == MM2:
        return _check_mm2(path, documents[0])
    kinds = {document.kind for document in documents}
    kind = documents[0].kind if len(documents) == 1 else "connectors"
    if Path(path).suffix in YAML:
        kind = "strimzi"
    of_worker = next((each.texts() for each in documents if each.kind == WORKER), None)
    if of_worker is None:
        parts = [_part(each) for each in documents]
    else:
        policy, support, paths = override_policy(of_worker), support_of(of_worker), LookupPaths.of(of_worker)
        parts = [_part(each, policy, support, paths) for each in documents]
    links = _links(documents, worker, user) if CONNECTOR in kinds else []
    return Report(path, kind, parts, links)


def _check_mm2(path: str, document: Document) -> Report:
    file = Mm2File(path, document.located)
    found = [_finding(document, each) for each in file.judge()]
    return Report(path, MM2, [Part(document.name, "a file of the dedicated MirrorMaker", found)], file.links())


def check_worker(url: str, login: tuple[str, str] | None = None) -> Report:
    """Of the connectors of a running worker. UnknownDocument."""
    running = ask(url, login)
    parts = [_part(each) for each in running.connectors]
    none = ["It has no connectors."] if not parts else []
    user = login[0] if login else urlsplit(url).username
    links = _links(running.connectors, running.url, user)
    return Report(running.url, "running-worker", parts, links, [f"{running.about}.", *none, UNSEEN])


def _part(
    document: Document,
    policy: OverridePolicy | None = None,
    support: Support = Support.ENABLED,
    paths: LookupPaths | None = None,
) -> Part:
    if document.kind == WORKER:
        judged = judge_worker({**document.defaults, **document.texts()})
    else:
        judged = judge_connector(document.config(), policy, support, paths=paths)
    found = [_finding(document, each) for each in judged if each.name not in document.defaults]
    return Part(document.name, _described(document), found)


def _finding(document: Document, judged: Judgement) -> Finding:
    setting = document.settings.get(judged.name)
    written = judged.name if setting is None else setting.written
    value = None if setting is None or not setting.literal else shown(judged.name, setting.value)
    line = None if setting is None else setting.line
    return Finding(judged.verdict, line, written, value, judged.text, judged.instead)


def _described(document: Document) -> str:
    if document.kind == WORKER:
        return "a worker's properties"
    class_name = document.settings.get("connector.class")
    simple = (class_name.value or "").rpartition(".")[2] if class_name else ""
    return f"a {simple}" if simple else "a connector"


def _links(documents: Sequence[Document], worker: str, user: str | None) -> list[VerifyLink]:
    found = (connector_link(each.name, each.texts(), worker, user) for each in documents if each.kind == CONNECTOR)
    return [link for link in found if link is not None]
