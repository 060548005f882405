import pytest

from mirror_connect.connectors.config_values import Secret, java_text, parse, wire_text


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
