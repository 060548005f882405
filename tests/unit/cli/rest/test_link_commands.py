"""`links`, `lag`, `topics`, `groups` and `problems` against a worker that tells of links, and against one that doesn't."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.links_worker import NOW_MS, LinksWorker, lag, link, topic
from tests.paths import ROOT
from tests.unit.cli.rest.conftest import Mirror, Served

LOST = {
    "code": "CLUSTER_UNREACHABLE",
    "subject": "source cluster B",
    "line": "The source cluster B can't be reached",
    "connector": "B-source",
    "task": 0,
    "since_ms": NOW_MS - 60_000,
}


@pytest.fixture
def two(linked: LinksWorker) -> LinksWorker:
    """A->B is well; B->A has failed, is behind, and has problems."""
    linked.links = [
        link(),
        link("B->A", state="FAILED", lag=lag(12_345, 372.4, 3), latency_ms=None, problems=[LOST], more_problems=2),
    ]
    linked.topics = {
        "A->B": [topic("orders", 2, lag=lag(2, 0.5, 2)), topic("payments", lag=lag(None, None, 0, 1))],
        "B->A": [topic("late", lag=lag(10, 372.4, 1))],
    }
    linked.groups = {
        "A->B": [
            {
                "group": "billing",
                "partitions": 3,
                "read_again": 0,
                "skipped": None,
                "untranslated": 1,
                "checkpoint_latency_ms": 812,
                "synced_ms": NOW_MS - 4_000,
                "topics": [f"t{number}" for number in range(7)],
            }
        ],
        "B->A": [],
    }
    linked.partitions = {
        ("A->B", "orders"): [partition(0, 1, 0.1), partition(1, 1, 0.5)],
        ("A->B", "payments"): [partition(0, None, None)],
    }
    return linked


def partition(number: int, records: int | None, seconds: float | None) -> dict[str, Any]:
    return {
        "partition": number,
        "source_offset": 10,
        "log_end": 12,
        "lag_records": records,
        "lag_seconds": seconds,
        "records": 10,
        "bytes": 1_000,
        "task": 0,
        "problem": None,
    }


def test_links_have_state_lag_rate_latency_and_problems(two: LinksWorker, mirror: Mirror) -> None:
    done = mirror("links", "--worker", two.url)
    lines = done.out.splitlines()
    assert lines[0].split("  ")[0] == "link"
    assert done.texts[:2] == [
        "A->B RUNNING 1 h ago 0 0 s 1,234/s 1.5 MB/s 9 ms 0 2 1",
        "B->A FAILED 1 h ago 12,345 6 min 12 s 1,234/s 1.5 MB/s - 4 2 1",
    ]
    assert lines[4:] == ["B->A: The source cluster B can't be reached", "mirror-connect problems lists all problems."]
    assert (done.code, done.err) == (1, "")


def test_wide_has_what_was_left_out_in_a_table_of_its_own(two: LinksWorker, mirror: Mirror) -> None:
    two.links[1]["skipped"] = None
    plain, wide = (mirror("links", "--worker", two.url, "-o", output).out for output in ("table", "wide"))
    usual, more, *lines = wide.split("\n\n")
    assert "\n\n".join((usual, *lines)) == plain
    assert [" ".join(row.split()) for row in more.splitlines()] == [
        "link partitions p50 max filtered skipped told connectors",
        "A->B 3 1 ms 20 ms 1,234 56 0 s ago A-source",
        "B->A 3 - - 1,234 unknown 0 s ago B-source",
    ]


def test_no_line_of_wide_is_longer_than_132_columns_with_usual_names(linked: LinksWorker, mirror: Mirror) -> None:
    kinds = ("source", "checkpoint", "heartbeat")
    linked.links = [
        link(
            "primary->backup",
            connectors=[{"name": f"mirror-{kind}", "kind": kind} for kind in kinds],
            lag=lag(1_234_567, 372.4, 3),
            rate={"records": 123_456.0, "bytes": 858_200_000.0},
            latency_ms={"p50": 112.0, "p99": 812.0, "max": 5_812.0},
            partitions=1_234,
            filtered=1_234_567,
            last_report_ms=NOW_MS - 33_000,
            since_ms=NOW_MS - 33 * 60_000,
        )
    ]
    out = mirror("links", "--worker", linked.url, "-o", "wide").out
    assert "mirror-source, mirror-checkpoint, mirror-heartbeat" in out
    assert [line for line in out.splitlines() if len(line) > 132] == []


def test_wide_without_links_is_one_line(linked: LinksWorker, mirror: Mirror) -> None:
    linked.links = []
    assert len(mirror("links", "--worker", linked.url, "-o", "wide").out.splitlines()) == 1


def test_json_is_the_body_of_the_answer(two: LinksWorker, mirror: Mirror) -> None:
    found = json.loads(mirror("links", "A->B", "--worker", two.url, "-o", "json").out)
    assert (found["links"], found["worker"]["time_ms"]) == ([two.links[0]], NOW_MS)


@pytest.mark.parametrize(
    ("arguments", "rows", "code"),
    [
        pytest.param((), ["A->B RUNNING 0", "B->A FAILED 12,345"], 1, id="links"),
        pytest.param(("A->B",), ["A->B payments unknown unknown", "A->B orders 2 0.5"], 0, id="topics_of_a_link"),
        pytest.param(("A*", "--by", "link"), ["A->B RUNNING 0"], 0, id="links_of_a_pattern"),
        pytest.param(
            ("A->B", "--by", "partition"),
            ["A->B payments 0 unknown", "A->B orders 1 1 0.5 s", "A->B orders 0 1 0.1 s"],
            0,
            id="partitions",
        ),
        pytest.param(("A->B", "--max-lag", "0s"), ["A->B payments unknown"], 0, id="not_beyond"),
        pytest.param(("A->B", "--by", "topic", "--limit", "1"), ["A->B payments unknown"], 0, id="limited"),
    ],
)
def test_lag_by_link_topic_and_partition(
    two: LinksWorker, mirror: Mirror, arguments: tuple[str, ...], rows: list[str], code: int
) -> None:
    done = mirror("lag", *arguments, "--worker", two.url)
    assert (done.code, done.err) == (code, "")
    words = [row.split() for row in rows]
    assert [row[: len(wanted)] for row, wanted in zip(done.rows, words, strict=False)] == words


@pytest.mark.parametrize(
    ("found", "said", "code"),
    [
        pytest.param(lag(5, 29.0, 1), [], 0, id="within"),
        pytest.param(lag(5, 31.0, 1), ["A->B: the lag of 31 s is more than 30 s"], 1, id="beyond"),
        pytest.param(
            lag(None, None, 0, 3),
            ["A->B: the lag is unknown, so it may be more than 30 s"],
            1,
            id="a_dead_source_is_never_fine",
        ),
        pytest.param(
            lag(5, 1.0, 1, 2),
            ["A->B: the lag of 2 partitions is unknown, so it may be more than 30 s"],
            1,
            id="unknown_in_part",
        ),
    ],
)
def test_max_lag_is_a_check(
    linked: LinksWorker, mirror: Mirror, found: dict[str, Any], said: list[str], code: int
) -> None:
    linked.links = [link(lag=found)]
    done = mirror("lag", "--max-lag", "30s", "--worker", linked.url)
    assert (done.code, done.out.splitlines()[3:]) == (code, said)


def test_what_the_limit_leaves_out_is_counted(linked: LinksWorker, mirror: Mirror) -> None:
    linked.links = [link(topics=1_234)]
    linked.topics = {"A->B": [topic(f"t{number:04}") for number in range(1_234)]}
    done = mirror("lag", "A->B", "--worker", linked.url)
    assert (len(done.out.splitlines()), done.out.splitlines()[-1]) == (103, "… and 1,134 more: --limit 0 lists all")
    done = mirror("lag", "A->B", "--limit", "0", "--worker", linked.url)
    assert len(done.out.splitlines()) == 1_235
    # A page has 500 rows.
    assert sum(path.startswith("/admin/links/A-%3EB/topics") for path in linked.asked.elements()) == 4


def test_topics_are_searched_and_paged(two: LinksWorker, mirror: Mirror) -> None:
    done = mirror("topics", "--search", "pay", "--worker", two.url)
    assert [row[:3] for row in done.rows] == [["A->B", "payments", "A.payments"]]
    none = mirror("topics", "B->A", "--search", "pay", "--worker", two.url)
    assert (none.code, none.out) == (0, "No topic has pay in its name.\n")


def test_groups_say_what_would_be_read_again_and_skipped(two: LinksWorker, mirror: Mirror) -> None:
    done = mirror("groups", "--worker", two.url)
    assert done.texts == ["A->B billing 3 0 unknown 1 812 ms 4.0 s ago"]
    assert "t0, t1, t2, t3, t4 and 2 more" in mirror("groups", "--worker", two.url, "-o", "wide").out


def test_problems_are_those_of_links_and_what_has_failed(two: LinksWorker, mirror: Mirror) -> None:
    done = mirror("problems", "--worker", two.url)
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[1:] == [
        "2026-11-18T11:05:40Z  B->A  B-source/0  The source cluster B can't be reached",
        "2026-11-18T11:04:40Z  B->A  B-source/0  FAILED: there is no trace",
        "",
        "… and 2 more problems",
    ]
    none = mirror("problems", "A->B", "--worker", two.url)
    assert (none.code, none.out) == (0, "No problems.\n")


@pytest.mark.parametrize("command", ["links", "lag", "topics", "groups"])
def test_a_worker_without_links_is_one_line_and_code_2(linked: LinksWorker, mirror: Mirror, command: str) -> None:
    linked.instead = (404, b'{"error_code":404,"message":"HTTP 404 Not Found"}', "application/json")
    done = mirror(command, "--worker", linked.url)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"{linked.url} has no /admin/links: it is a worker of Kafka's own, or an older one" in done.err


def test_problems_of_a_worker_without_links_are_what_has_failed(
    served: Served, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.worker.supervisor.failing[TaskId("orders", 0)] = "X: no\n\tat a.b\nCaused by: Y: root\n"
    served.put("orders")
    served.run(served.worker.state("orders", "RUNNING", ["FAILED"]))
    monkeypatch.setattr("mirror_connect.cli.rest.problems_command.LINKS", "/admin/nothing")
    done = mirror("problems", "--worker", served.url)
    assert (done.code, done.texts[0]) == (1, "- - orders/0 FAILED: X: no; Caused by: Y: root")
    assert done.out.splitlines()[-1].endswith("these are the traces of its status.")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("A-", "has no link A-; quote it: 'A->B'"),
        ("A->C", "has no link A->C; did you mean A->B?"),
        ("x", "has no link x; mirror-connect links lists them"),
    ],
)
def test_an_unknown_link_is_named_with_what_to_do(two: LinksWorker, mirror: Mirror, asked: str, said: str) -> None:
    done = mirror("lag", asked, "--worker", two.url)
    assert (done.code, done.err) == (2, f"mirror-connect: {two.url} {said}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--max-lag", "soon"), "soon is no time"),
        (("--by", "day"), "invalid choice: 'day'"),
        (("--limit", "-1"), "limit"),
        (("--interval", "0"), "0 is no number of seconds"),
        (("-o", "xml"), "invalid choice: 'xml'"),
        (("--watch", "-o", "json"), "--watch shows tables"),
        (("a", "b"), "unrecognized arguments: b"),
        (("--worker", "nope"), "the worker's URL is not valid"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(mirror: Mirror, arguments: tuple[str, ...], said: str) -> None:
    done = mirror("lag", *arguments)
    assert (done.code, done.out, done.err.count("\n"), said in done.err) == (2, "", 1, True), done.err


def test_a_standby_says_that_it_knows_nothing_and_who_does(linked: LinksWorker, mirror: Mirror) -> None:
    unknown = {"lag": lag(None, None, 0, 3), "rate": None, "latency_ms": None, "problems": None}
    linked.links = [link(leads=False, leader_url="http://leader:8083/", **unknown)]
    said = "A->B: this worker does not run it and knows no figures or problems; the leader is http://leader:8083/"
    for command in ("links", "lag", "problems"):
        done = mirror(command, "--worker", linked.url)
        assert (done.code, said in done.out) == (int(command == "problems"), True), done.out
    assert mirror("links", "--worker", linked.url).texts[0].startswith("A->B RUNNING 1 h ago unknown unknown unknown")


def test_a_worker_whose_figures_are_unknown_is_named(linked: LinksWorker, mirror: Mirror) -> None:
    linked.links = [link(leads=False, leader_url="http://l:8083/", unknown_workers=["x:8083", "y:8083"], rate=None)]
    for command in ("links", "lag", "problems"):
        done = mirror(command, "--worker", linked.url)
        assert f"A->B: tasks of it run at x:8083, y:8083, whose figures {linked.url} can't get" in done.out, done.out
        assert "does not run it" not in done.out


def test_heartbeats_alone_have_no_lag(linked: LinksWorker, mirror: Mirror) -> None:
    linked.links = [link(lag=lag(None, None), connectors=[{**link()["connectors"][0], "kind": "heartbeat"}])]
    done = mirror("lag", "--max-lag", "1s", "--worker", linked.url)
    assert (done.code, done.texts) == (0, ["A->B RUNNING - - 0 0 1,234/s"])


def test_what_the_worker_answers_for_made_up_measures_is_shown(linked: LinksWorker, mirror: Mirror) -> None:
    linked.links = json.loads((ROOT / "tests/fixtures/links/links.json").read_text("utf-8"))["links"]
    done = mirror("lag", "--worker", linked.url, "--max-lag", "1h")
    assert done.texts[:3] == [
        "A->B RUNNING 3,420 3 min 10 0 9,350/s",
        "B->A PAUSED - - 0 0 unknown",
        "C->B FAILED unknown unknown 0 2 unknown",
    ]
    assert (done.code, done.texts[4:]) == (1, ["C->B: the lag is unknown, so it may be more than 1 h"])


def test_links_of_a_real_rest_interface_are_unknown_before_a_task_reports(served: Served, mirror: Mirror) -> None:
    served.put("orders")
    served.run(served.worker.state("orders", "RUNNING", ["RUNNING"]))
    done = mirror("links", "A->B", "--worker", served.url)
    assert (done.code, done.texts[0].split(" ago ")[1]) == (0, "unknown unknown unknown unknown - 0 0 0")
    late = mirror("lag", "--max-lag", "1d", "--worker", served.url)
    assert (late.code, late.texts[-1]) == (1, "A->B: the lag is unknown, so it may be more than 1 d")
    for command, empty in (("topics", "No topic is known yet."), ("groups", "No group is known yet.")):
        assert mirror(command, "A->B", "--worker", served.url).out.startswith(empty)
    assert mirror("problems", "--worker", served.url).out == "No problems.\n"


def test_without_a_terminal_a_watched_view_is_printed_once(two: LinksWorker, mirror: Mirror) -> None:
    done = mirror("links", "A->B", "--watch", "--worker", two.url)
    assert (done.code, len(done.out.splitlines())) == (0, 2)
    assert done.err == "mirror-connect: there is no terminal to watch it on: printed once\n"


def test_no_lag_is_0_while_partitions_are_unknown(linked: LinksWorker, mirror: Mirror) -> None:
    linked.links = [link(lag=lag(0, 0.0, 0, 2)), link("B->A", lag=lag(0, 0.0))]
    rows = mirror("lag", "--worker", linked.url).texts
    assert [("0 s" in row, "unknown" in row) for row in rows[:2]] == [(False, True), (True, False)]
