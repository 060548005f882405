"""What workers tell each other: written and read again as the same, and nothing of half an answer."""

from __future__ import annotations

import pytest

from mirror_connect.app.metrics.connector_figures import (
    ConnectorFigures,
    ConnectorRows,
    GroupFigures,
    PartitionFigures,
    TaskFigures,
    TaskPlace,
)
from mirror_connect.app.metrics.figures import Lag, Rate
from mirror_connect.app.metrics.figures_lines import (
    END_LINE,
    LINE_ROWS,
    BadFigures,
    FiguresReader,
    figures_line,
    head_line,
    places_lines,
    rows_lines,
)
from mirror_connect.app.metrics.shown_problem import ShownProblem
from mirror_connect.connectors.problems import ProblemCode

HEAD = head_line("w:8083", "p", "1.0", 7.5, "STARTING")
PLACES = tuple(TaskPlace("c", number, "3", "host3") for number in range(LINE_ROWS + 1))
FIGURES = ConnectorFigures(
    tasks={0: TaskFigures(0.25, Lag(3, 1.5, 2, 1)), 4: TaskFigures(1.0, Lag(None, None, unknown=7))},
    records=10,
    bytes=2_000,
    filtered=40,
    skipped=6,
    rate=Rate(1.5, 300.25),
    latency_counts=(1, 2),
    recent_counts=(0, 1),
    recent_most=12,
    problems=(ShownProblem(ProblemCode.PARTITION_UNREADABLE, "t-0", "It can't be read", 5, 4),),
    more_problems=2,
)
PARTITION = PartitionFigures(0, "A.t", 4, None, None, 3.5, 5, 600, 0.5, 60.0)
GROUP = GroupFigures(0, 3, None, 1, 0, 12.5, None, ["t", "u"])


def read(*lines: bytes) -> FiguresReader:
    reader = FiguresReader()
    for line in lines:
        reader.take(line)
    return reader


def test_what_is_written_is_read_again() -> None:
    partitions = {("t", number): PARTITION for number in range(2 * LINE_ROWS + 1)}
    rows = ConnectorRows(partitions, {"t": ((1, 0), 9)}, {"g": GROUP})
    lines = list(rows_lines("c", rows))
    assert len(lines) == 5
    found = read(HEAD, *places_lines(PLACES), figures_line("c", FIGURES), *lines, END_LINE).result()
    assert (found.worker_id, found.process, found.version, found.lease) == ("w:8083", "p", "1.0", 7.5)
    assert (found.spark, found.places) == ("STARTING", PLACES)
    assert found.connectors == {"c": FIGURES}
    assert found.rows == {"c": rows}


def test_later_versions_may_tell_more() -> None:
    problems = b'[["NEW_CODE","s","l",1,0],["PARTITION_UNREADABLE","t-0","It can\'t be read",5,4,"more"]]'
    line = figures_line("c", FIGURES).replace(b'"more_problems":2', b'"more_problems":2,"new":[]')
    begin, end = line.index(b'"problems":') + len(b'"problems":'), line.index(b',"more_problems"')
    found = read(HEAD, b'{"connector":"c","new":1}', line[:begin] + problems + line[end:], END_LINE).result()
    told = found.connectors["c"]
    assert (told.problems, told.more_problems) == (FIGURES.problems, 3)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param((HEAD,), id="cut_off"),
        pytest.param((END_LINE,), id="without_a_head"),
        pytest.param((HEAD, b"[]", END_LINE), id="no_object"),
        pytest.param((HEAD, b"{", END_LINE), id="no_json"),
        pytest.param((HEAD, b'{"connector":"c","partitions":[["t"]]}', END_LINE), id="half_a_row"),
        pytest.param((HEAD, b'{"connector":"c","figures":{}}', END_LINE), id="no_sums"),
    ],
)
def test_half_an_answer_is_none(lines: tuple[bytes, ...]) -> None:
    with pytest.raises(BadFigures):
        read(*lines).result()
