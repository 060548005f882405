"""Log levels by log4j's names, over loggers of a manager of their own."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from mirror_connect.app.herder.log_levels import LEVELS, LONGEST_NAME, MOST_NAMED, LoggerLevel, LogLevels, level_named

OF_ALL = {"root", *(f"mirror_connect.{room}" for room in ("connectors", "kafka_io", "spark_jobs"))}
NOW = 1_700_000_000.25


@pytest.fixture
def manager() -> logging.Manager:
    return logging.Manager(logging.RootLogger(logging.INFO))


@pytest.fixture
def levels(manager: logging.Manager) -> LogLevels:
    return LogLevels(manager, lambda: NOW)


def test_the_root_is_told_as_it_was_started(levels: LogLevels) -> None:
    assert levels.levels()["root"] == LoggerLevel("INFO", None)


def test_a_logger_that_nobody_has_used_is_unknown(levels: LogLevels) -> None:
    assert levels.level("no.such.logger") is None


def test_a_logger_tells_the_level_it_has_from_above(levels: LogLevels, manager: logging.Manager) -> None:
    manager.getLogger("mirror_connect.app.rest")
    assert levels.level("mirror_connect.app.rest") == LoggerLevel("INFO", None)


def test_a_new_level_is_told_with_its_time(levels: LogLevels) -> None:
    assert (levels.change("demo", "DEBUG"), levels.level("demo")) == (["demo"], LoggerLevel("DEBUG", 1_700_000_000_250))


def test_the_same_level_again_changes_nothing(levels: LogLevels) -> None:
    levels.change("demo", "DEBUG")
    assert levels.change("demo", "DEBUG") == []


def test_loggers_below_follow_and_namesakes_do_not(levels: LogLevels) -> None:
    levels.change("demo.two.child", "WARN")
    levels.change("demo.twofold", "WARN")
    changed = levels.change("demo.two", "ERROR")
    told = [levels.level(name) for name in ("demo.two.child", "demo.twofold")]
    assert (changed, [each.level for each in told if each]) == (["demo.two", "demo.two.child"], ["ERROR", "WARN"])


@pytest.mark.parametrize("name", ["root", "ROOT"])
def test_the_root_takes_all_loggers_with_it(levels: LogLevels, manager: logging.Manager, name: str) -> None:
    manager.getLogger("demo").setLevel(logging.ERROR)
    changed = levels.change(name, "DEBUG")
    assert {"root", "demo", "org.apache.kafka.connect"} <= set(changed)
    assert (manager.root.level, manager.getLogger("demo").level) == (logging.DEBUG, logging.DEBUG)


def test_what_is_switched_off_on_purpose_stays_so_unless_it_is_named(
    levels: LogLevels, manager: logging.Manager
) -> None:
    silent = manager.getLogger("mirror_connect.librdkafka")
    silent.setLevel(logging.CRITICAL + 1)
    levels.change("root", "DEBUG")
    of_the_root = silent.level
    levels.change("mirror_connect.librdkafka", "DEBUG")
    assert (of_the_root, silent.level) == (logging.CRITICAL + 1, logging.DEBUG)


def test_switching_off_is_told_each_time_of_all_below(levels: LogLevels) -> None:
    levels.change("demo.child", "OFF")
    assert [levels.change("demo", "OFF"), levels.change("demo", "OFF")] == [["demo", "demo.child"]] * 2


def test_loggers_that_are_off_are_not_listed(levels: LogLevels) -> None:
    levels.change("demo", "OFF")
    assert ("demo" in levels.levels(), levels.level("demo")) == (False, LoggerLevel("OFF", 1_700_000_000_250))


@pytest.mark.parametrize(
    ("named", "ours"),
    [
        ("org.apache.kafka", "mirror_connect.kafka_io.protocol.fetch"),
        ("org.apache.kafka", "mirror_connect.app.worker"),
        ("org.apache.kafka.connect", "mirror_connect.app.worker"),
        ("org.apache.kafka.connect.runtime.rest", "mirror_connect.app.rest.application"),
        ("org.apache.kafka.connect.storage", "mirror_connect.app.storage.configs"),
        ("org.apache.kafka.connect.mirror", "mirror_connect.spark"),
        ("org.apache.kafka.clients", "mirror_connect.kafka_io.protocol.fetch"),
    ],
)
def test_a_name_of_connects_own_stands_for_the_part_that_does_the_same(
    levels: LogLevels, manager: logging.Manager, named: str, ours: str
) -> None:
    logger = manager.getLogger(ours)
    levels.change(named, "DEBUG")
    assert logger.isEnabledFor(logging.DEBUG)


def test_a_name_of_connects_own_leaves_other_parts_alone(levels: LogLevels, manager: logging.Manager) -> None:
    logger = manager.getLogger("mirror_connect.app.herder.herder")
    levels.change("org.apache.kafka.connect.runtime.rest", "DEBUG")
    assert not logger.isEnabledFor(logging.DEBUG)


def test_loggers_made_later_have_the_level_of_the_name_that_stands_for_them(
    levels: LogLevels, manager: logging.Manager
) -> None:
    levels.change("org.apache.kafka.clients", "TRACE")
    assert manager.getLogger("mirror_connect.kafka_io.later").isEnabledFor(LEVELS["TRACE"])


def test_a_name_of_connects_own_tells_the_level_of_its_loudest_part(
    levels: LogLevels, manager: logging.Manager
) -> None:
    manager.getLogger("mirror_connect.spark").setLevel(logging.DEBUG)
    told = [levels.level(name) for name in ("org.apache.kafka.connect", "org.apache.kafka.clients")]
    assert [each.level for each in told if each] == ["DEBUG", "INFO"]


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_is_told_by_the_name_it_was_set_with(levels: LogLevels, level: str) -> None:
    levels.change("demo", level)
    told = levels.level("demo")
    assert told is not None
    assert told.level == level


@pytest.mark.parametrize(("text", "name"), [("debug", "DEBUG"), (" Warn ", "WARN"), ("LOUD", None), ("", None)])
def test_levels_are_known_in_any_case(text: str, name: str | None) -> None:
    assert level_named(text) == name


def test_names_that_nobody_logs_by_are_bounded() -> None:
    manager = logging.Manager(logging.RootLogger(logging.INFO))
    levels = LogLevels(manager)
    for number in range(MOST_NAMED + 50):
        levels.change(f"made-up-{number}", "DEBUG")
    assert levels.change("a" * (LONGEST_NAME + 1), "DEBUG") == []
    assert len(manager.loggerDict) <= MOST_NAMED + 10
    # What was named before, and what logs, can be set still.
    assert levels.change("made-up-0", "ERROR") == ["made-up-0"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        pytest.param("mirror_connect.spark_jobs", {"mirror_connect.spark_jobs"}, id="ours"),
        pytest.param("org.apache.kafka.clients", {"mirror_connect.kafka_io"}, id="an_alias"),
        pytest.param("org.apache.spark", {"org.apache.spark"}, id="spark_itself"),
        pytest.param("root", OF_ALL, id="all_but_the_jvm"),
        pytest.param("demo", None, id="of_nobody"),
    ],
)
def test_spark_is_told_of_what_concerns_it(manager: logging.Manager, name: str, told: set[str] | None) -> None:
    heard: list[Mapping[str, int]] = []
    manager.getLogger("mirror_connect.kafka_io")
    LogLevels(manager, lambda: NOW, heard.append).change(name, "DEBUG")
    assert heard == ([] if told is None else [dict.fromkeys(told, logging.DEBUG)])
