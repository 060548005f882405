"""Levels of loggers in Spark's processes: what is applied, and once."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from mirror_connect.connectors.task_protocol import LogLevels
from mirror_connect.spark_jobs import log_levels
from mirror_connect.spark_jobs.log_levels import apply, known_version

NAMES = ("mirror_connect", "mirror_connect.kafka_io", "py4j")


@pytest.fixture(autouse=True)
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(log_levels._Process, "version", 0)
    before = {name: logging.getLogger(name).level for name in NAMES}
    root = logging.getLogger().level
    yield
    assert logging.getLogger().level == root
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def level(name: str) -> int:
    return logging.getLogger(name).getEffectiveLevel()


def test_a_level_holds_for_a_logger_and_those_below() -> None:
    apply(LogLevels(1, {"mirror_connect.kafka_io": logging.DEBUG}))
    assert (level("mirror_connect.kafka_io.client.cluster"), known_version()) == (logging.DEBUG, 1)


def test_the_same_version_is_applied_once() -> None:
    apply(LogLevels(1, {"mirror_connect.kafka_io": logging.DEBUG}))
    logging.getLogger("mirror_connect.kafka_io").setLevel(logging.ERROR)
    apply(LogLevels(1, {"mirror_connect.kafka_io": logging.DEBUG}))
    assert level("mirror_connect.kafka_io") == logging.ERROR


def test_the_root_stands_for_ours_alone() -> None:
    before = level("py4j")
    apply(LogLevels(1, {"root": logging.DEBUG}))
    assert (level("mirror_connect.spark_jobs"), level("py4j")) == (logging.DEBUG, before)


def test_spark_itself_is_a_matter_of_the_jvm() -> None:
    told: list[tuple[str, int]] = []
    apply(LogLevels(1, {"org.apache.spark": logging.INFO}), lambda name, number: told.append((name, number)))
    apply(LogLevels(2, {"org.apache.spark": logging.INFO}))
    assert told == [("org.apache.spark", logging.INFO)]
