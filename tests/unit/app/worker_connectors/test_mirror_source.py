"""A source connector in the worker: what it reports when clusters answer, refuse and stay silent."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from mirror_connect.connectors.user_code.user_class import PLUGIN_PATH
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from tests.fakes.source_connector import REFUSED, World


async def test_it_creates_remote_topics_and_deals_their_partitions(world: World) -> None:
    world.start()
    await world.until(lambda heard: len(heard) == 2)
    assert (world.host.heard, world.target.existing) == (["started", ["orders-0,orders-1"]], {"A.orders": 2})


async def test_a_new_partition_joins_the_tasks_that_run(world: World) -> None:
    world.start(tasks__max="2")
    await world.until(lambda heard: ["orders-0", "orders-1"] in heard)
    world.source.existing["orders"] = 3
    await world.until(lambda heard: ["orders-0,orders-2", "orders-1"] in heard)


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testRefreshTopicPartitionsTopicOnTargetFirst")
async def test_a_new_remote_topic_keeps_its_partitions_while_brokers_do_not_tell_of_it(world: World) -> None:
    world.target.not_told_yet = {"A.orders"}
    world.start()
    await world.until(lambda heard: world.target.looks > 1 and len(heard) > 2)
    assert world.host.heard == ["started", *[["orders-0,orders-1"]] * (len(world.host.heard) - 1)]


async def test_a_remote_topic_without_a_source_has_no_task_until_there_is_one(world: World) -> None:
    world.source.existing, world.target.existing = {}, {"A.orders": 1}
    world.start()
    await world.until(lambda heard: [] in heard)
    world.source.existing = {"orders": 1}
    await world.until(lambda heard: ["orders-0"] in heard)
    assert [each for each in world.host.heard if isinstance(each, list) and each] == [["orders-0"]]


async def test_what_ran_before_stays_where_it_was(world: World) -> None:
    world.start(previous=[[TopicPartition("orders", 1)], [TopicPartition("orders", 0)]], tasks__max="2")
    await world.until(lambda heard: len(heard) == 2)
    assert world.host.heard[1] == ["orders-1", "orders-0"]


async def test_a_topic_that_cannot_be_created_waits_and_the_others_are_copied(world: World) -> None:
    world.target.refusals["A.orders"] = AdminError(REFUSED, 1)
    world.start(topics="orders,other")
    await world.until(lambda heard: ["other-0"] in heard)
    assert world.host.heard[:2] == ["started", ("problem", REFUSED)]


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testRefreshTopicPartitions")
async def test_a_topic_is_copied_once_it_can_be_created_and_the_trouble_is_over(world: World) -> None:
    world.target.refusals["A.orders"] = AdminError("no", 1)
    world.start()
    await world.until(lambda heard: ("problem", "no") in heard)
    world.target.refusals.clear()
    await world.until(lambda heard: ["orders-0,orders-1"] in heard)
    assert world.host.heard[-2] == ("problem", None)


NOTHING = (
    "topics=typo matches none of the 2 topics of source cluster A, so nothing is copied; names and expressions stand for "
    "whole topic names"
)


async def test_topics_that_match_nothing_are_no_trouble_to_the_status(world: World) -> None:
    world.start(topics="typo")
    await world.until(lambda heard: len(heard) == 2)
    world.source.existing["typo"] = 1
    await world.until(lambda heard: ["typo-0"] in heard)
    assert [each for each in world.host.heard if each != []] == ["started", ["typo-0"]]


async def test_topics_that_match_nothing_are_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.start(topics="typo")
    await world.until(lambda heard: heard.count([]) == 2)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert lines == [f"Connector c: {NOTHING}"]


async def test_another_connector_that_copies_the_same_topic_is_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.store("older", "orders-0,orders-1")
    world.start()
    await world.until(lambda heard: len(heard) == 5)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line.partition(" topic")[0] for line in lines] == ["Connector c: connector older copies"]
    assert [each for each in world.host.heard if each != ["orders-0,orders-1"]] == ["started"]


async def copied_by_another_since(world: World, **more: str) -> None:
    """A connector has tasks, and another one gets some for the same topic."""
    world.start(**more)
    await world.until(lambda heard: len(heard) == 2)
    world.store("newer", "orders-0")


async def test_another_connector_that_comes_later_is_logged_after_the_next_refresh(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await copied_by_another_since(world)
    await world.until(lambda _: any("connector newer copies" in each for each in caplog.messages))


async def test_one_that_is_created_at_the_same_time_is_logged_without_another_refresh(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.settled.clear()
    await copied_by_another_since(world, refresh__topics__enabled="false")
    world.settled.set()
    await world.until(lambda _: any("connector newer copies" in each for each in caplog.messages))


async def test_a_connector_that_stops_looks_at_no_others_any_more(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.settled.clear()
    await copied_by_another_since(world, refresh__topics__enabled="false")
    await world.connectors[0].stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert not any("newer" in each for each in caplog.messages)


async def test_many_troubles_are_told_in_a_line_that_can_be_read(world: World) -> None:
    topics = [f"t{number}" for number in range(9)]
    world.source.existing = dict.fromkeys(topics, 1)
    world.target.refusals = {f"A.{topic}": AdminError(f"no {topic}", 1) for topic in topics}
    world.start(topics=",".join(topics))
    await world.until(lambda heard: len(heard) > 1)
    assert world.host.heard[1] == ("problem", "no t0; no t1; no t2; and 6 more")


async def test_a_source_that_is_away_does_not_fail_the_connector(world: World) -> None:
    world.source.failures = [ClusterUnreachable("away")] * 3
    world.start()
    await world.until(lambda heard: ["orders-0,orders-1"] in heard)
    told = world.host.heard
    assert told == ["started", ("problem", "away"), ("problem", None), ["orders-0,orders-1"]]


async def test_wrong_credentials_at_the_start_fail_it_with_one_line(world: World) -> None:
    world.source.failures = [NotAuthorized("The source cluster refused the credentials")]
    world.start()
    await world.until(bool)
    assert world.host.heard == [("failed", "The source cluster refused the credentials")]


async def test_credentials_that_are_refused_later_are_a_trouble_only(world: World) -> None:
    world.start()
    await world.until(lambda heard: len(heard) == 2)
    world.source.failures = [NotAuthorized("refused")]
    await world.until(lambda heard: ("problem", None) in heard)
    assert ("failed", "refused") not in world.host.heard


async def test_a_setting_that_cannot_be_used_fails_it_with_one_line(world: World) -> None:
    world.source.failures = [ConfigError("ssl.keystore.location", "/nowhere", "no such file")]
    world.start()
    await world.until(bool)
    assert world.host.heard == [
        ("failed", "Invalid value /nowhere for configuration ssl.keystore.location: no such file")
    ]


@pytest.mark.parametrize("given", ["", " "])
async def test_a_source_that_nothing_names_fails_it_with_the_property(world: World, given: str) -> None:
    world.start(source__cluster__bootstrap__servers=given)
    await world.until(bool)
    line = (
        "Invalid source.cluster.bootstrap.servers: No bootstrap urls given in bootstrap.servers; name brokers of the "
        "source cluster"
    )
    assert world.host.heard == [("failed", line)]


async def test_a_mistake_of_ours_fails_this_connector_alone(world: World) -> None:
    world.source.failures = [ZeroDivisionError("oh")]
    world.start()
    await world.until(bool)
    assert world.host.heard == [("failed", "ZeroDivisionError: oh")]


async def test_a_disabled_connector_runs_without_tasks(world: World) -> None:
    world.start(enabled="false")
    await world.until(lambda heard: len(heard) == 2)
    assert (world.host.heard, world.target.existing) == (["started", []], {})


@pytest.mark.parametrize("never", [{"refresh__topics__enabled": "false"}, {"refresh__topics__interval__seconds": "0"}])
async def test_without_refreshing_it_looks_once(world: World, never: dict[str, str]) -> None:
    world.start(**never)
    going = world.connectors[0]._scheduler._going
    assert going is not None
    await asyncio.wait_for(going, 60)
    assert world.host.heard == ["started", ["orders-0,orders-1"]]


async def test_nothing_is_heard_of_it_after_its_end(world: World) -> None:
    world.start()
    await world.connectors[0].stop()
    world.host.heard.clear()
    await asyncio.sleep(0.05)
    assert world.host.heard == []


async def test_a_trouble_that_lasts_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.source.failures = [ClusterUnreachable("away")] * 3
    world.start()
    await world.until(lambda heard: ["orders-0,orders-1"] in heard)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == ["Connector c: away"]


async def test_a_new_topic_gets_its_sources_configs_whether_or_not_they_are_synced_later(world: World) -> None:
    world.start()
    await world.until(lambda heard: len(heard) == 2)
    assert world.target.configs["A.orders"] == {"flush.ms": "9"}


async def test_a_new_topic_whose_configs_cannot_be_read_waits_and_the_others_are_copied(world: World) -> None:
    world.source.unreadable["orders"] = "no right"
    world.start(topics="orders,other")
    await world.until(lambda heard: ["other-0"] in heard)
    ((_, line),) = [each for each in world.host.heard if each[0] == "problem"]
    assert line.startswith("topic orders is not copied: no right; or create its remote topic by hand")


@pytest.fixture
def users_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "class Raising:\n"
        "    def should_replicate_topic(self, topic): raise KeyError(topic)\n"
        "class Merging:\n"
        "    def format_remote_topic(self, source_alias, topic): return 'all'\n"
        "    def topic_source(self, topic): return None\n"
        "    def upstream_topic(self, topic): return None\n"
    )
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))


@pytest.mark.usefixtures("users_module")
async def test_a_users_filter_that_raises_fails_its_connector_with_one_line(world: World) -> None:
    world.start(topic__filter__class="python:mine:Raising")
    await world.until(bool)
    ((kind, line),) = world.host.heard
    said = "should_replicate_topic('orders') raised KeyError: 'orders' (line 2 of mine.py)"
    assert (kind, line) == ("failed", f"Invalid value python:mine:Raising for configuration topic.filter.class: {said}")


@pytest.mark.usefixtures("users_module")
async def test_of_two_topics_that_a_policy_calls_alike_one_is_copied(world: World) -> None:
    world.start(topics="orders,other", replication__policy__class="python:mine:Merging")
    await world.until(lambda heard: len(heard) > 2)
    like = "topic other is not copied: replication.policy.class names it all on the target, like orders"
    assert world.host.heard[:3] == ["started", ("problem", like), ["orders-0,orders-1"]]


def route(regex: str, replacement: str) -> dict[str, str]:
    return {
        "transforms": "route",
        "transforms__route__type": "RegexRouter",
        "transforms__route__regex": regex,
        "transforms__route__replacement": replacement,
    }


async def test_a_route_names_the_remote_topics(world: World) -> None:
    world.target.existing = {"sales-orders": 1}
    world.start(topics="orders,other", **route(r"A\.(.*)", "sales-$1"))
    await world.until(lambda heard: len(heard) == 2)
    assert world.host.heard == ["started", ["orders-0,orders-1,other-0"]]
    assert world.target.existing == {"sales-orders": 2, "sales-other": 1}


async def test_of_two_topics_with_a_route_to_one_name_the_one_that_is_copied_keeps_it(world: World) -> None:
    world.start(previous=[[TopicPartition("other", 0)]], topics="orders,other", **route(".*", "all"))
    await world.until(lambda heard: len(heard) > 2)
    like = "topic orders is not copied: transforms names it all on the target, like other"
    assert world.host.heard[:3] == ["started", ("problem", like), ["other-0"]]


@pytest.mark.parametrize(("replacement", "shown"), [("", "''"), ("a/b", "'a/b'"), ("x" * 300, f"'{'x' * 250}'")])
async def test_a_route_to_what_is_no_name_of_a_topic_is_told(world: World, replacement: str, shown: str) -> None:
    world.start(topics="orders", **route(".*", replacement))
    await world.until(lambda heard: len(heard) > 2)
    line = f"topic orders is not copied: transforms names it {shown} on the target, and no topic can have this name"
    assert world.host.heard[:3] == ["started", ("problem", line), []]


@pytest.mark.parametrize(
    ("topics", "replacement", "line"),
    [
        ("orders", "$1", "transforms gives its copy the same name, and source and target are the same cluster"),
        (
            "orders.*",
            "$1-copy",
            "its copy orders-copy would be copied again without end, as source and target are the same cluster: add that "
            "name to topics.exclude",
        ),
    ],
)
async def test_on_one_cluster_no_copy_is_copied_again(world: World, topics: str, replacement: str, line: str) -> None:
    world.target.id = world.source.id
    world.start(topics=topics, **route(r"A\.(.*)", replacement))
    await world.until(lambda heard: len(heard) > 2)
    assert world.host.heard[:3] == ["started", ("problem", f"topic orders is not copied: {line}"), []]


async def test_the_workers_own_topics_are_not_copied_into_and_that_is_said_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.source.existing |= {"connect-configs": 1, "connect-status": 5}
    world.start(topics=".*", replication__policy__class=IDENTITY_POLICY)
    await world.until(lambda heard: len(heard) == 2)
    await world.until(lambda _: world.source.looks > 2)
    assert (world.host.heard[1], set(world.target.existing)) == (["orders-0,orders-1,other-0"], {"orders", "other"})
    [line] = [record.getMessage() for record in caplog.records if "not copied" in record.getMessage()]
    assert "connect-configs, connect-status (connect-configs would be connect-configs)" in line
