"""`mirror-connect preview`: what it sends, what it prints, how it ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from mirror_connect.app.planning.preview import Content, Contents, Header, Preview, PreviewedRecord
from mirror_connect.app.supervisor.spark_questions import SparkAway
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.connect_worker import source_config
from tests.unit.cli.rest.conftest import Done, Mirror, Served

BEFORE = Contents(1_000, None, Content("text", '{"card": 4111}', 14), [])
AFTER = Contents(
    86_400_000,
    Content("base64", "AP8=", 2),
    Content("text", "y" * 300 + "\x1b[2J", 304),
    [Header("from", Content("text", "eu", 2))],
)
PREVIEW = Preview(
    [
        PreviewedRecord("orders", 0, 7, 1_000, "A.orders", True, None, BEFORE, AFTER),
        PreviewedRecord("orders", 1, 8, -1, "A.orders", False, None, BEFORE, None),
    ],
    "orders-2: no answer",
)


class FakePreviewer:
    def __init__(self, answer: Preview | Exception) -> None:
        self.answer = answer
        self.asked: tuple[int, bool, str | None] | None = None

    async def preview(
        self, raw: Mapping[str, str], resolved: Mapping[str, str], count: int, *, before: bool, topic: str | None
    ) -> Preview:
        self.asked = count, before, topic
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "link.json"
    path.write_text(json.dumps({"name": "link", "config": source_config()}))
    return path


def previewed(mirror: Mirror, served: Served, file: Path, answer: Preview | Exception, *more: str) -> Done:
    served.worker.herder.previews._previewer = FakePreviewer(answer)
    return mirror("preview", str(file), "--worker", served.url, *more)


def lines(done: Done) -> list[str]:
    return [" ".join(line.split()) for line in done.out.splitlines()]


def test_records_are_rows_and_what_the_source_has_is_not_shown(mirror: Mirror, served: Served, file: Path) -> None:
    done = previewed(mirror, served, file, PREVIEW)
    assert (done.code, done.err) == (0, "")
    assert f"orders 0 7 after base64:AP8= {'y' * 200}… from=eu" in lines(done)
    assert "orders 1 8 left out - - -" in lines(done)
    assert lines(done)[-2:] == ["Note: orders-2: no answer.", "1 of 2 records would be copied. Nothing was written."]
    assert "4111" not in done.out


def test_the_time_is_what_the_target_would_have(mirror: Mirror, served: Served, file: Path) -> None:
    done = previewed(mirror, served, file, PREVIEW, "-o", "wide")
    assert any(line.startswith("orders A.orders 0 7 1970-01-02 00:00:00 after ") for line in lines(done))


def test_what_the_source_has_stands_above_on_request(mirror: Mirror, served: Served, file: Path) -> None:
    done = previewed(mirror, served, file, PREVIEW, "--before", "--records", "5", "--topic", "orders")
    assert 'orders 0 7 before null {"card": 4111} -' in lines(done)
    previewer = served.worker.herder.previews._previewer
    assert isinstance(previewer, FakePreviewer)
    assert previewer.asked == (5, True, "orders")


def test_a_preview_as_json_is_what_the_worker_answered(mirror: Mirror, served: Served, file: Path) -> None:
    answer = json.loads(previewed(mirror, served, file, PREVIEW, "-o", "json").out)
    assert [record["offset"] for record in answer["preview"]["records"]] == [7, 8]


def test_a_record_in_error_says_why(mirror: Mirror, served: Served, file: Path) -> None:
    broken = PreviewedRecord("orders", 0, 9, 1_000, "A.orders", False, "transformation mask: no JSON", None, None)
    done = previewed(mirror, served, file, Preview([*PREVIEW.records, broken], None))
    assert "orders 0 9 error - - - transformation mask: no JSON" in lines(done)


def test_a_source_without_records_has_no_table(mirror: Mirror, served: Served, file: Path) -> None:
    done = previewed(mirror, served, file, Preview([], None))
    assert (done.code, lines(done)) == (0, ["0 of 0 records would be copied. Nothing was written."])


def test_a_config_that_is_refused_is_code_1_with_its_errors(mirror: Mirror, served: Served, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"name": "link", "config": source_config(tasks__max="abc")}))
    done = previewed(mirror, served, wrong, PREVIEW)
    assert (done.code, "tasks.max" in done.out) == (1, True)


@pytest.mark.parametrize("more", [["--records", "0"], ["--records", "many"]])
def test_a_number_that_is_none_is_wrong_usage(mirror: Mirror, served: Served, file: Path, more: list[str]) -> None:
    done = previewed(mirror, served, file, PREVIEW, *more)
    assert (done.code, done.out) == (2, "")


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(ClusterUnreachable("no broker answers"), id="source"),
        pytest.param(SparkAway("no broker answers"), id="spark"),
    ],
)
def test_a_source_or_spark_that_does_not_answer_is_code_2(
    mirror: Mirror, served: Served, file: Path, failure: Exception
) -> None:
    done = previewed(mirror, served, file, failure)
    assert (done.code, "no broker answers" in done.err) == (2, True)
