import pytest

from mirror_connect.connectors.config.values import Secret, java_text, parse, wire_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e8, "1.0E8"),
        (12345678.9, "1.23456789E7"),
        (1e-5, "1.0E-5"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (-1.0, "-1.0"),
        (1e22, "1.0E22"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (float("inf"), "Infinity"),
        (0.0, "0.0"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    assert java_text(value) == text


@pytest.mark.parametrize("rendered", [repr(Secret("hunter2")), f"{Secret('hunter2')}", str([Secret("hunter2")])])
def test_a_secret_does_not_show_when_rendered(rendered: str) -> None:
    assert "hunter2" not in rendered


def test_a_password_is_answered_hidden_and_revealed_only_on_request() -> None:
    value = parse("hunter2", "PASSWORD")[1]
    assert (wire_text(value, "PASSWORD"), value.reveal()) == ("[hidden]", "hunter2")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        pytest.param("900", "INT", 900, id="zeros_behind"),
        pytest.param("-007", "INT", -7, id="zeros_in_front"),
        pytest.param("0" * 5000 + "7", "LONG", 7, id="more_zeros_than_python_reads"),
        pytest.param("1" * 5000, "LONG", None, id="more_digits_than_python_reads"),
        pytest.param("-0x1p99999", "DOUBLE", float("-inf"), id="hexadecimal_beyond_all"),
    ],
)
def test_a_number_of_any_length_is_read_or_refused(text: str, kind: str, value: float | None) -> None:
    assert parse(text, kind)[1] == value
