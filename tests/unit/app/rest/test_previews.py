"""POST /connector-plugins/{plugin}/config/preview over a real socket."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from mirror_connect.app.herder.previews import Previewer
from mirror_connect.app.planning.preview import Content, Contents, Preview, PreviewedRecord
from mirror_connect.app.supervisor.preview_lookups import LookupRefused
from mirror_connect.app.supervisor.spark_questions import SparkAway
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from tests.fakes.connect_worker import FakeWorker, source_config
from tests.fakes.rest_answers import error

PATH = "/connector-plugins/MirrorSource/config/preview"
CONFIG = {**source_config(), "name": "a"}
CONTENTS = Contents(2000, None, Content("text", "x", 1), [])
RECORD = PreviewedRecord("t", 0, 5, 1000, "A.t", True, None, None, CONTENTS)


class FakePreviewer:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.asked: list[tuple[int, bool, str | None]] = []

    async def preview(
        self, raw: Mapping[str, str], resolved: Mapping[str, str], count: int, *, before: bool, topic: str | None
    ) -> Preview:
        if self.failure is not None:
            raise self.failure
        self.asked.append((count, before, topic))
        return Preview([RECORD], None)


@pytest.fixture
def previewer(worker: FakeWorker) -> FakePreviewer:
    made = FakePreviewer()
    asked: Previewer = made
    worker.herder.previews._previewer = asked
    return made


async def test_a_preview_comes_with_its_validation_and_stores_nothing(
    client: httpx.AsyncClient, worker: FakeWorker, previewer: FakePreviewer
) -> None:
    before = worker.written()
    answer = await client.post(PATH, json=CONFIG)
    body = answer.json()
    assert (answer.status_code, body["errors"], body["validation"]["error_count"]) == (200, [], 0)
    assert body["preview"] == {
        "records": [
            {
                "topic": "t",
                "partition": 0,
                "offset": 5,
                "timestamp": 1000,
                "remote_topic": "A.t",
                "kept": True,
                "error": None,
                "before": None,
                "after": {
                    "timestamp": 2000,
                    "key": None,
                    "value": {"encoding": "text", "data": "x", "size": 1},
                    "headers": [],
                },
            }
        ],
        "line": None,
    }
    assert (worker.written(), (await client.get("/connectors")).json()) == (before, [])
    assert previewer.asked == [(20, False, None)]


async def test_a_request_says_how_many_records_of_what_and_whether_as_the_source_has_them(
    client: httpx.AsyncClient, previewer: FakePreviewer
) -> None:
    await client.post(f"{PATH}?records=200&before=True&topic=orders", json=CONFIG)
    assert previewer.asked == [(200, True, "orders")]


async def test_a_wrong_config_is_answered_as_by_validate_and_no_cluster_is_asked(
    client: httpx.AsyncClient, previewer: FakePreviewer
) -> None:
    wrong = {**CONFIG, "tasks.max": "abc"}
    body = (await client.post(PATH, json=wrong)).json()
    validated = (await client.put(PATH.replace("preview", "validate"), json=wrong)).json()
    assert (body["validation"], body["preview"], previewer.asked) == (validated, None, [])
    assert body["errors"][0] == "Invalid value abc for configuration tasks.max: Not a number of type INT"


@pytest.mark.parametrize("records", ["0", "-1", "201", "many", "٣", "1e2", ""])
async def test_a_number_that_is_none_is_refused(
    client: httpx.AsyncClient, previewer: FakePreviewer, records: str
) -> None:
    answer = await client.post(PATH, json=CONFIG, params={"records": records})
    line = f"Invalid records {records}: give a number from 1 to 200"
    assert (answer.status_code, answer.json(), previewer.asked) == (400, error(400, line), [])


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        pytest.param(ClusterUnreachable("no broker answers at hunter2-hunter2"), 502, id="away"),
        pytest.param(NotAuthorized("refused hunter2-hunter2"), 502, id="refused"),
        pytest.param(SparkAway("no answer with hunter2-hunter2"), 503, id="spark"),
        pytest.param(ConfigError("ssl.keystore.location", "hunter2-hunter2", "no such file"), 400, id="unusable"),
        pytest.param(LookupRefused("Lookup r (…=hunter2-hunter2): bad"), 400, id="lookup"),
    ],
)
async def test_a_cluster_that_gives_no_answer_is_one_line_without_secrets(
    client: httpx.AsyncClient, previewer: FakePreviewer, failure: Exception, status: int
) -> None:
    previewer.failure = failure
    secret = {**CONFIG, "source.cluster.sasl.jaas.config": "${file:/secrets:password}"}
    answer = await client.post(PATH, json=secret)
    assert (answer.status_code, answer.json()["error_code"]) == (status, status)
    assert "hunter2" not in answer.text
    assert "[hidden]" in answer.text
