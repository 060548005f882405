"""The driver answers the worker's questions, whatever happens to one of them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mirror_connect.spark_jobs.compute import statement, statement_answers
from mirror_connect.spark_jobs.internal_http import InternalHttp
from mirror_connect.spark_jobs.questions import Questions


class FakeHttp:
    """The worker: it has these questions, and keeps the answers."""

    def __init__(self, *questions: dict[str, Any] | None) -> None:
        self.questions = list(questions)
        self.answers: list[Any] = []

    def call(self, method: str, path: str, body: Any = None, timeout: float = 0.0) -> Any:
        if (method, path) == ("GET", "/question"):
            return {"question": self.questions.pop(0)}
        assert (method, path) == ("POST", "/answer")
        self.answers.append(body)
        return {}


def asked(http: FakeHttp) -> list[Any]:
    questions = Questions(cast(InternalHttp, http), cast(Any, object()))
    while http.questions:
        questions.answer_next()
    return http.answers


def test_each_question_is_answered_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions: list[Any] = []
    monkeypatch.setattr(statement, "statement_session", lambda _: sessions.append(object()) or sessions[-1])
    monkeypatch.setattr(statement_answers, "statement_answer", lambda session, body: [session is sessions[0], body])
    http = FakeHttp(
        {"number": 3, "kind": "statement", "body": "a"}, None, {"number": 5, "kind": "statement", "body": "b"}
    )
    assert asked(http) == [{"number": 3, "answer": [True, "a"]}, {"number": 5, "answer": [True, "b"]}]
    assert len(sessions) == 1


def test_a_question_that_fails_is_answered_too() -> None:
    http = FakeHttp({"number": 1, "kind": "statement", "body": {}}, {"number": 2, "kind": "riddle", "body": {}})
    assert [(each["number"], each["answer"]["setting"]) for each in asked(http)] == [(1, None), (2, None)]
