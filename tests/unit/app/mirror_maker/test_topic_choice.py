"""The topics that a regular expression chooses, as Java's consumer matches it."""

from __future__ import annotations

import pytest

from mirror_connect.app.mirror_maker.options import WrongOption
from mirror_connect.app.mirror_maker.topic_choice import TopicChoice

TOPICS = ["orders", "orders.eu", "app_log", "__consumer_offsets", "__transaction_state", "_schemas"]


@pytest.mark.parametrize(
    ("expression", "excludes", "chosen"),
    [
        pytest.param(".*", False, {"orders", "orders.eu", "app_log", "_schemas"}, id="all_but_internal_ones"),
        pytest.param("orders", False, {"orders"}, id="the_whole_name_matches"),
        pytest.param("orders|app.*", False, {"orders", "app_log"}, id="alternatives"),
        pytest.param("orders.*", True, {"app_log", "_schemas"}, id="a_blacklist"),
        pytest.param("__consumer-offsets", True, {"orders", "orders.eu", "app_log", "_schemas"}, id="guides_example"),
        pytest.param("", False, set(), id="nothing"),
    ],
)
def test_an_expression_chooses_topics(expression: str, excludes: bool, chosen: set[str]) -> None:
    assert TopicChoice(expression, excludes=excludes).chosen(TOPICS) == chosen


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [("*", "write .* for all topics"), ("(a", "correct it: a Java regular expression is needed")],
)
def test_what_is_no_expression_is_refused_with_its_text_and_what_to_do(expression: str, remedy: str) -> None:
    with pytest.raises(WrongOption) as caught:
        TopicChoice(expression, excludes=False)
    assert str(caught.value).startswith(f"{expression} is an invalid regex: ")
    assert str(caught.value).endswith(f"; {remedy}")
