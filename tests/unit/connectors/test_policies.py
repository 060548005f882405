"""The base classes for users have the methods that are called."""

from __future__ import annotations

import inspect

import pytest

from mirror_connect.connectors import policies
from mirror_connect.connectors.policies import INTERFACES, ReplicationPolicy, TopicFilter


class Everything(TopicFilter):
    def should_replicate_topic(self, topic: str) -> bool:
        return bool(topic)


def test_a_class_keeps_its_config() -> None:
    assert Everything({"topics": "a"}).config == {"topics": "a"}


@pytest.mark.parametrize(
    ("interface", "name"),
    [(interface, name) for interface, methods in INTERFACES.items() for name, rule in methods.items() if rule.required],
)
def test_a_required_method_is_abstract_in_its_base_and_has_the_same_arguments(interface: str, name: str) -> None:
    base = getattr(policies, interface)
    assert name in base.__abstractmethods__
    assert tuple(inspect.signature(getattr(base, name)).parameters)[1:] == INTERFACES[interface][name].arguments


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_base_asks_for_no_more_than_the_worker_does(interface: str) -> None:
    required = {name for name, rule in INTERFACES[interface].items() if rule.required}
    assert getattr(policies, interface).__abstractmethods__ == required


def test_a_policy_that_lacks_a_method_cannot_be_made() -> None:
    class Half(ReplicationPolicy):
        def format_remote_topic(self, source_alias: str, topic: str) -> str:
            return source_alias + topic

    with pytest.raises(TypeError, match="topic_source"):
        Half({})  # type: ignore[abstract]


def test_a_topic_that_is_no_copy_may_be_answered_by_none_but_its_name_may_not() -> None:
    policy = INTERFACES["ReplicationPolicy"]
    assert "NoneType" in policy["topic_source"].answers
    assert policy["format_remote_topic"].answers == ("str",)
