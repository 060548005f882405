import pytest

from benchmarks.figures import Sample, percentile, span, together


def sample(at: float, records: int, cpu: float) -> Sample:
    return Sample(at, records, cpu, {"java": cpu}, cpu / 2, cpu / 4)


SAMPLES = [
    sample(0.0, 0, 5.0),
    sample(1.0, 100, 6.0),
    sample(2.0, 300, 7.0),
    sample(3.0, 500, 8.0),
    sample(9.0, 500, 20.0),
]


def test_a_span_begins_with_the_first_record() -> None:
    assert span(SAMPLES).records == 400


def test_a_span_ends_when_the_last_record_is_there() -> None:
    assert span(SAMPLES).seconds == 2.0


def test_cpu_counts_within_the_span_only() -> None:
    assert span(SAMPLES).cpu == 2.0


def test_cpu_by_kind_is_that_of_the_span() -> None:
    assert span(SAMPLES).cpu_by_kind == {"java": 2.0}


def test_records_per_cpu_second_is_their_quotient() -> None:
    assert span(SAMPLES).records_per_cpu_second == 200.0


def test_nothing_copied_is_an_error_and_no_figure() -> None:
    with pytest.raises(ValueError, match="no record arrived"):
        span([sample(0.0, 0, 1.0), sample(1.0, 0, 2.0)])


def test_one_single_step_is_no_figure_either() -> None:
    with pytest.raises(ValueError, match="no record arrived"):
        span([sample(0.0, 0, 1.0), sample(1.0, 50, 2.0)])


def test_the_start_of_a_copying_does_not_count() -> None:
    settled = span(SAMPLES, 1.0)
    assert (settled.records, settled.seconds, settled.cpu) == (200, 1.0, 1.0)


def test_a_copying_that_is_over_before_it_counts_is_an_error() -> None:
    with pytest.raises(ValueError, match="no record arrived"):
        span(SAMPLES, 2.0)


def test_what_happened_between_two_spans_does_not_count() -> None:
    both = together([span(SAMPLES), span([sample(100.0, 10, 90.0), sample(101.0, 20, 91.5)])])
    assert (both.seconds, both.records, both.cpu) == (3.0, 410, 3.5)


@pytest.mark.parametrize(
    ("percent", "value"),
    [
        pytest.param(50, 5.0, id="the_middle_is_the_lower_one"),
        pytest.param(99, 10.0, id="the_last_of_few"),
        pytest.param(0, 1.0, id="the_first"),
        pytest.param(100, 10.0, id="the_last"),
        pytest.param(10, 1.0, id="exactly_one_tenth"),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, value: float) -> None:
    assert percentile([float(number) for number in range(10, 0, -1)], percent) == value


def test_there_is_no_percentile_of_nothing() -> None:
    with pytest.raises(ValueError, match="no value"):
        percentile([], 50)
