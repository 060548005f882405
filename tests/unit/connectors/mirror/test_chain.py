"""What a chain with routes does with names, and which name each of its predicates sees."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.chain import Chain
from mirror_connect.connectors.mirror.transforms import chain_of
from mirror_connect.connectors.record_steps import Action, Step

STRIP = {"type": "RegexRouter", "regex": r"A\.(.*)", "replacement": "$1"}


def chain(**transforms: dict[str, str]) -> Chain:
    patterns = {"before": r"A\..*", "after": "orders.*", "never": "x"}
    return chain_of(
        {
            "transforms": ",".join(transforms),
            **{f"transforms.{alias}.{name}": value for alias, own in transforms.items() for name, value in own.items()},
            "predicates": ",".join(patterns),
            **{f"predicates.{alias}.type": "TopicNameMatches" for alias in patterns},
            **{f"predicates.{alias}.pattern": pattern for alias, pattern in patterns.items()},
        }
    )


def header(predicate: str, name: str) -> dict[str, str]:
    return {"type": "DropHeaders", "headers": name, "predicate": predicate}


def dropped(found: tuple[Step, ...]) -> list[bytes]:
    assert all(each.action is Action.DROP_HEADERS for each in found)
    return [name for each in found for name in each.headers]


def test_routes_follow_each_other() -> None:
    twice = chain(one=STRIP, two={"type": "RegexRouter", "regex": "orders(.*)", "replacement": "sales$1"})
    assert [twice.routed(name) for name in ("A.orders.eu", "A.A.orders", "B.orders")] == [
        *("sales.eu", "A.orders", "B.orders"),
    ]


@pytest.mark.parametrize(
    ("predicate", "negate", "expected"),
    [("before", "false", "t"), ("before", "true", "A.t"), ("after", "false", "A.t"), ("never", "true", "t")],
)
def test_a_route_may_have_a_predicate_on_the_topic(predicate: str, negate: str, expected: str) -> None:
    assert chain(one={**STRIP, "predicate": predicate, "negate": negate}).routed("A.t") == expected


def test_a_predicate_sees_the_name_as_it_is_at_its_place() -> None:
    found = chain(
        a=header("before", "1"), b=header("after", "2"), r=STRIP, c=header("before", "3"), d=header("after", "4")
    )
    assert dropped(found.steps("A.orders")) == [b"1", b"4"]
    # As of heartbeats, whose names have no route.
    assert dropped(found.steps("A.orders", routed=False)) == [b"1", b"3"]


def test_a_chain_says_whether_it_routes_and_whether_records_stay() -> None:
    chains = [chain(), chain(r=STRIP), chain(r=STRIP, f={"type": "Filter"}), chain(f={"type": "Filter"})]
    assert [(each.routes, each.keeps_records) for each in chains] == [
        *((False, True), (True, True), (True, False), (False, False)),
    ]


def test_names_are_judged_at_once_as_the_routes_leave_them() -> None:
    slow = {"type": "RegexRouter", "regex": "(b|c|bc)*d", "replacement": "$1"}
    both = chain(one=STRIP, two={**slow, "predicate": "never", "negate": "true"})
    both.judge(["A.bcd", "A.x", "A.bcd"])
    assert [both.routed(name) for name in ("A.bcd", "A.x")] == ["c", "x"]


def test_a_slow_expression_is_named() -> None:
    with pytest.raises(ConfigError, match=r"transforms\.slow\.regex"):
        chain(slow={"type": "RegexRouter", "regex": "(a|aa)+", "replacement": ""}).judge(["a" * 80 + "-"])
