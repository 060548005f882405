"""The driver answers the worker's questions, whatever happens to one of them."""

from __future__ import annotations

import logging
import queue
import threading
from typing import Any, cast

import pytest

from mirror_connect.spark_jobs import questions as module
from mirror_connect.spark_jobs.compute import statement, statement_answers, statement_preview
from mirror_connect.spark_jobs.internal_http import InternalHttp, WorkerUnreachableError
from mirror_connect.spark_jobs.questions import MOST_PREVIEWS, MOST_STATEMENTS, Questions

PATIENCE_S = 60


class FakeHttp:
    """The worker: it has these questions, and keeps the answers."""

    def __init__(self, *questions: dict[str, Any] | None) -> None:
        self.questions = list(questions)
        self.answers: queue.Queue[Any] = queue.Queue()

    def call(self, method: str, path: str, body: Any = None, timeout: float = 0.0) -> Any:
        if (method, path) == ("GET", "/question"):
            return {"question": self.questions.pop(0)}
        assert (method, path) == ("POST", "/answer")
        self.answers.put(body)
        return {}

    def answer(self) -> Any:
        return self.answers.get(timeout=PATIENCE_S)


def ask(http: FakeHttp) -> None:
    questions = Questions(cast(InternalHttp, http), cast(Any, object()))
    while http.questions:
        questions.answer_next()


def test_each_question_is_answered_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Any] = []
    monkeypatch.setattr(statement, "statement_session", lambda _: sessions.append(object()) or sessions[-1])
    monkeypatch.setattr(statement_answers, "statement_answer", lambda session, body: [session is sessions[0], body])
    http = FakeHttp(
        {"number": 3, "kind": "statement", "body": "a"}, None, {"number": 5, "kind": "statement", "body": "b"}
    )
    ask(http)
    assert sorted((http.answer(), http.answer()), key=lambda each: each["number"]) == [
        {"number": 3, "answer": [True, "a"]},
        {"number": 5, "answer": [True, "b"]},
    ]
    assert len(sessions) == 1


def test_a_question_that_fails_is_answered_too() -> None:
    http = FakeHttp({"number": 1, "kind": "statement", "body": {}}, {"number": 2, "kind": "riddle", "body": {}})
    ask(http)
    assert {(each["number"], each["answer"]["setting"]) for each in (http.answer(), http.answer())} == {
        (1, None),
        (2, None),
    }


def test_a_statement_of_too_many_levels_is_named_as_such_and_is_no_error_of_the_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def read(session: object, body: Any) -> Any:
        return read(session, body)

    monkeypatch.setattr(statement, "statement_session", lambda _: object())
    monkeypatch.setattr(statement_answers, "statement_answer", read)
    http = FakeHttp({"number": 1, "kind": "statement", "body": {}})
    with caplog.at_level(logging.INFO):
        ask(http)
        assert "too deeply nested" in http.answer()["answer"]["problem"]
    [line] = caplog.records
    assert ("too deeply nested" in line.getMessage(), line.levelno, line.exc_info) == (True, logging.INFO, None)


def test_what_a_failed_preview_holds_is_in_no_answer_and_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_session: object, body: Any) -> Any:
        raise ValueError(f"the value {body['records']} can't be cast")

    monkeypatch.setattr(statement, "statement_session", lambda _: object())
    monkeypatch.setattr(statement_preview, "preview_answer", fail)
    http = FakeHttp({"number": 1, "kind": "preview", "body": {"records": "geheim"}})
    with caplog.at_level(logging.DEBUG):
        ask(http)
        answer = http.answer()
    assert (answer["number"], "ValueError" in answer["answer"]["problem"], "geheim" in str(answer)) == (1, True, False)
    assert "ValueError" in caplog.text
    ours = [line for line in caplog.records if line.name == "mirror_connect.spark_jobs"]
    assert [line.levelno for line in ours] == [logging.ERROR]
    assert "geheim" not in caplog.text


def test_previews_that_never_end_delay_no_statement_and_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def computed(_session: object, body: Any) -> Any:
        if body["of"] == "endless":
            assert goes_on.wait(PATIENCE_S)
        return body

    monkeypatch.setattr(statement, "statement_session", lambda _: object())
    monkeypatch.setattr(statement_preview, "preview_answer", computed)
    monkeypatch.setattr(statement_answers, "statement_answer", lambda _, body: body)
    endless = [{"number": number, "kind": "preview", "body": {"of": "endless"}} for number in range(MOST_PREVIEWS)]
    http = FakeHttp(
        *endless,
        {"number": 7, "kind": "preview", "body": {"of": "quick"}},
        {"number": 8, "kind": "statement", "body": "s"},
    )
    questions = Questions(cast(InternalHttp, http), cast(Any, object()))
    while http.questions:
        questions.answer_next()
    refused, read = sorted((http.answer(), http.answer()), key=lambda each: each["number"])
    assert (refused["number"], "problem" in refused["answer"]) == (7, True)
    assert read == {"number": 8, "answer": "s"}
    goes_on.set()
    assert {http.answer()["number"] for _ in endless} == set(range(MOST_PREVIEWS))
    # Their places are free again, a moment after the answers.
    for _ in endless:
        assert questions._free.acquire(timeout=PATIENCE_S)


def test_statements_that_spark_never_reads_stop_no_other_and_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def read(_session: object, body: Any) -> Any:
        if body == "endless":
            assert goes_on.wait(PATIENCE_S)
        return body

    monkeypatch.setattr(module, "WAIT_S", 0.01)
    monkeypatch.setattr(statement, "statement_session", lambda _: object())
    monkeypatch.setattr(statement_answers, "statement_answer", read)
    http = FakeHttp()
    questions = Questions(cast(InternalHttp, http), cast(Any, object()))

    def asked(number: int, body: str) -> None:
        http.questions.append({"number": number, "kind": "statement", "body": body})
        questions.answer_next()

    for number in range(MOST_STATEMENTS - 1):
        asked(number, "endless")
    asked(7, "quick")
    assert http.answer() == {"number": 7, "answer": "quick"}
    # Its place is free a moment after the answer.
    assert questions._readers.acquire(timeout=PATIENCE_S)
    questions._readers.release()
    asked(MOST_STATEMENTS - 1, "endless")
    asked(8, "quick")
    refused = http.answer()
    assert refused["number"] == 8
    assert "restart the worker" in refused["answer"]["problem"]
    goes_on.set()
    assert {http.answer()["number"] for _ in range(MOST_STATEMENTS)} == set(range(MOST_STATEMENTS))


def test_the_worker_and_the_driver_call_a_preview_the_same() -> None:
    from mirror_connect.app.supervisor import statement_reader  # noqa: PLC0415 — of the other side

    assert module._PREVIEW == statement_reader.PREVIEW


def test_an_answer_is_sent_again_when_the_connection_has_ended_meanwhile() -> None:
    class Closed(FakeHttp):
        failures = 2

        def call(self, method: str, path: str, body: Any = None, timeout: float = 0.0) -> Any:
            if method == "POST" and self.failures:
                self.failures -= 1
                raise WorkerUnreachableError("closed")
            return super().call(method, path, body, timeout)

    http = Closed({"number": 7, "kind": "riddle", "body": {}})
    ask(http)
    assert http.answer()["number"] == 7
