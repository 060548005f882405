"""What the driver reads of its executors. With Spark's real answers: tests/spark/test_spark_archive.py."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from mirror_connect.spark_jobs.application import Application
from mirror_connect.spark_jobs.executors import Executors

# Of Spark's ExecutorSummary, which has some thirty fields.
ANSWER = [
    {"id": "driver", "hostPort": "10.0.0.9:40001", "maxTasks": 0, "activeTasks": 1, "isActive": True},
    {"id": "3", "hostPort": "10.0.0.7:40002", "maxTasks": 8, "activeTasks": 1, "isActive": True},
    {"id": "12", "hostPort": "[fd00::7]:40003", "maxTasks": 2, "activeTasks": 0, "isActive": True},
    # Those that have just come.
    {"id": "13", "hostPort": "10.0.0.8", "maxTasks": 2, "activeTasks": 0, "isActive": True},
    {"id": "14", "hostPort": "[fd00::8]", "maxTasks": 2, "activeTasks": 0, "isActive": True},
]


class _Session:
    """A session on a cluster, with a JVM that answers from memory."""

    def __init__(self, *, stopped: bool = False, fails: bool = False) -> None:
        self.killed = False
        self.stopped, self.fails = stopped, fails
        store = SimpleNamespace(executorList=lambda active: ANSWER if active else [])
        profiles = SimpleNamespace(defaultResourceProfile=lambda: "default")
        java = SimpleNamespace(
            isStopped=lambda: self.stopped,
            statusStore=lambda: store,
            resourceProfileManager=lambda: profiles,
            maxNumConcurrentTasks=self._slots,
        )
        writer = SimpleNamespace(mapper=lambda: SimpleNamespace(writeValueAsString=json.dumps))
        v1 = SimpleNamespace(JacksonMessageWriter=lambda: writer)
        spark = SimpleNamespace(status=SimpleNamespace(api=SimpleNamespace(v1=v1)))
        self.sparkContext: Any = SimpleNamespace(
            master="spark://m:7077",
            _jsc=SimpleNamespace(sc=lambda: java),
            _jvm=SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=spark))),
            _gateway=SimpleNamespace(proc=SimpleNamespace(kill=self._kill)),
        )

    def _slots(self, profile: str) -> int:
        if self.fails:
            raise OSError("the JVM is gone")
        return {"default": 10}[profile]

    def _kill(self) -> None:
        self.killed = True


def _room(session: Any) -> dict[str, Any]:
    hello = {"url": "http://127.0.0.1:1", "token": "t", "scratch": "/s", "statements": False}
    return Application(hello, session)._room()


def test_the_executors_are_told_without_the_driver() -> None:
    assert Executors(_Session()).all() == [  # type: ignore[arg-type]
        {"id": "3", "host": "10.0.0.7", "slots": 8, "tasks": 1, "draining": False, "silent_s": 0.0},
        {"id": "12", "host": "[fd00::7]", "slots": 2, "tasks": 0, "draining": False, "silent_s": 0.0},
        {"id": "13", "host": "10.0.0.8", "slots": 2, "tasks": 0, "draining": False, "silent_s": 0.0},
        {"id": "14", "host": "[fd00::8]", "slots": 2, "tasks": 0, "draining": False, "silent_s": 0.0},
    ]


def test_slots_are_those_that_spark_counts() -> None:
    # As in an executor that is being decommissioned, whose slots are in the list and are no room.
    room = _room(_Session())
    assert (room["slots"], len(room["executors"])) == (10, 4)


def test_without_an_answer_no_list_is_told_as_an_empty_one_says_that_all_are_lost() -> None:
    assert _room(_Session(fails=True)) == {"slots": 0}


def test_an_application_that_its_cluster_has_ended_ends_the_jvm_and_with_it_the_driver(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = _Session(stopped=True)
    _room(session)
    assert session.killed
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL]
