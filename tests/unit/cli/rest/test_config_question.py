"""What a command says of a worker's answer about a file's connector. With real answers: test_plan_command.py."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from mirror_connect.cli.rest.config_question import ask_about
from mirror_connect.cli.rest.failures import (
    CommandFailed,
    RequestRefused,
    UnknownName,
    Unsupported,
    WorkerUnreachable,
    WrongUsage,
)
from mirror_connect.cli.rest.listings import View
from mirror_connect.cli.rest.worker_client import WorkerClient


class FakeWorker:
    """Answers, or raises what is in the place of an answer."""

    url = "http://w"

    def __init__(self, answer: Mapping[str, Any] | Exception) -> None:
        self._answer = answer
        self.asked: tuple[Any, ...] = ()

    def send(self, method: str, path: str, body: Mapping[str, Any], **query: Any) -> Mapping[str, Any]:
        self.asked = method, path, body, query
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def asked(worker: FakeWorker, path: Path) -> View:
    chosen = argparse.Namespace(file=str(path), name=None)

    def view_of(answer: Mapping[str, Any]) -> View:
        return View(answer, [], ["shown"])

    return ask_about(cast("WorkerClient", worker), chosen, ("POST", "preview"), {"records": 3}, view_of)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "link.json"
    path.write_text(json.dumps({"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}))
    return path


def test_the_config_is_sent_and_the_answer_shown(file: Path) -> None:
    worker = FakeWorker({"preview": {}})
    assert asked(worker, file).lines == ["shown"]
    method, path, body, query = worker.asked
    assert (method, path, query) == ("POST", "/connector-plugins/MirrorSourceConnector/config/preview", {"records": 3})
    assert body["name"] == "link"


def test_a_config_that_would_be_refused_has_its_errors(file: Path) -> None:
    view = asked(FakeWorker({"preview": None, "errors": ["Invalid a", "Invalid b"]}), file)
    assert [str(each) for each in view.lines] == ["link would be refused.", "refused: Invalid a", "refused: Invalid b"]
    assert view.wrong


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RequestRefused("the source does not answer", 502), WorkerUnreachable),
        (RequestRefused("Spark does not answer", 503), WorkerUnreachable),
        (RequestRefused("a rebalance", 409), RequestRefused),
        (UnknownName("no such path"), Unsupported),
    ],
)
def test_why_there_is_no_answer(raised: Exception, expected: type[CommandFailed], file: Path) -> None:
    with pytest.raises(expected) as found:
        asked(FakeWorker(raised), file)
    assert type(found.value) is expected


def test_it_is_asked_about_one_connector_with_a_class(file: Path) -> None:
    (file.parent / "other.json").write_text(file.read_text())
    with pytest.raises(WrongUsage, match="has 2 connectors"):
        asked(FakeWorker({}), file.parent)
    file.write_text(json.dumps({"topics": "a"}))
    with pytest.raises(WrongUsage, match=r"has no connector\.class"):
        asked(FakeWorker({}), file)
