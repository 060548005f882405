from __future__ import annotations

import shutil
import subprocess

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parsed_text

from mirror_connect.app.exposition.exposition import ExpositionSettings
from mirror_connect.app.exposition.kafka_names import Kind, NameSet, jmx_value
from mirror_connect.app.exposition.own_series import ALL
from mirror_connect.app.exposition.page import AT_ONCE, Format, Histograms, Samples, Summaries, label_text, written
from mirror_connect.app.exposition.partition_rows import Detail
from tests.fakes.measured_process import USUAL, whole

EVERYTHING = ExpositionSettings((NameSet.JMX, NameSet.REPORTER))
ODD = 'a "quoted"\\name\nof two lines'


def text_of(series: Samples | Histograms | Summaries, text_format: Format = Format.TEXT) -> str:
    return "".join(written(series, text_format))


@pytest.mark.parametrize("settings", [USUAL, EVERYTHING, ExpositionSettings((), Detail.TOPIC)])
def test_both_formats_hold_the_same_samples(settings: ExpositionSettings) -> None:
    told = whole(("legacy", "new"))
    text = told.text(settings)
    open_metrics = told.text(settings, Format.OPEN_METRICS) + "# EOF\n"
    samples = {
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for family in parsed_text(text)
        for sample in family.samples
    }
    again = {
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for family in parsed_open_metrics(open_metrics)
        for sample in family.samples
    }
    assert samples == again
    assert len(samples) == sum(not line.startswith("#") for line in text.splitlines())


@pytest.mark.parametrize("settings", [USUAL, EVERYTHING])
def test_no_series_comes_twice(settings: ExpositionSettings) -> None:
    lines = [line for line in whole(("legacy", "new")).text(settings).splitlines() if line[0] != "#"]
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)


@pytest.mark.tool("promtool")
@pytest.mark.parametrize("settings", [USUAL, EVERYTHING])
def test_promtool_finds_fault_with_kafkas_names_alone(settings: ExpositionSettings) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool")
    said = subprocess.run(  # noqa: PLW1510 — 3 is an expected code
        ["promtool", "check", "metrics"],
        input=whole(("legacy", "new")).text(settings),
        capture_output=True,
        text=True,
        timeout=60,
    )
    complaints = [line for line in (said.stdout + said.stderr).splitlines() if line.strip()]
    assert said.returncode in (0, 3)  # 3: names could be better
    assert [line for line in complaints if not line.startswith("kafka_")] == []


def test_signs_that_end_a_label_are_escaped() -> None:
    series = Samples("a_metric", Kind.GAUGE, "Says\nso", [(label_text([("name", ODD)]), 1)])
    for text, parsed in (
        (text_of(series), parsed_text),
        (text_of(series, Format.OPEN_METRICS) + "# EOF\n", parsed_open_metrics),
    ):
        (family,) = parsed(text)
        assert [sample.labels for sample in family.samples] == [{"name": ODD}]


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("orders-0.eu_1 %", "orders-0.eu_1 %"),
        ("A->B", '"A->B"'),
        ("10.0.0.1:8083", '"10.0.0.1:8083"'),
        ('a*b?"c\\', '"a\\*b\\?\\"c\\\\"'),
        ("größe", '"größe"'),
    ],
)
def test_a_value_is_quoted_as_in_an_mbean(value: str, label: str) -> None:
    assert jmx_value(value) == label


def test_a_counter_has_its_ending_in_the_samples_alone() -> None:
    series = Samples("things_total", Kind.COUNTER, "Things.", [("", 3)])
    assert text_of(series) == "# HELP things_total Things.\n# TYPE things_total counter\nthings_total 3\n"
    assert text_of(series, Format.OPEN_METRICS) == "# HELP things Things.\n# TYPE things counter\nthings_total 3\n"


def test_a_histogram_adds_its_buckets_up() -> None:
    series = Histograms("age_seconds", "Age.", (0.5, 1.0), [('{of="a"}', (2, 0, 1), 4.5)])
    assert text_of(series).splitlines()[2:] == [
        'age_seconds_bucket{of="a",le="0.5"} 2',
        'age_seconds_bucket{of="a",le="1.0"} 2',
        'age_seconds_bucket{of="a",le="+Inf"} 3',
        'age_seconds_sum{of="a"} 4.5',
        'age_seconds_count{of="a"} 3',
    ]


def test_a_series_without_samples_is_left_out() -> None:
    assert text_of(Samples("nothing", Kind.GAUGE, "Nothing.", [])) == ""


def test_a_piece_holds_few_samples_however_many_there_are() -> None:
    series = Samples("many", Kind.GAUGE, "Many.", ((f'{{n="{n}"}}', n) for n in range(10 * AT_ONCE + 1)))
    counts = [piece.count("\n") for piece in written(series, Format.TEXT)]
    assert max(counts) == AT_ONCE
    assert sum(counts) == 10 * AT_ONCE + 1 + 2


def test_names_of_our_own_follow_the_rules() -> None:
    assert len({each.name for each in ALL}) == len(ALL)
    for each in ALL:
        assert (each.kind is Kind.COUNTER) == each.name.endswith("_total")
        assert not each.unit or each.unit in each.name
