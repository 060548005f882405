"""The feeder fails when its task dies, so that Spark starts both again."""

from __future__ import annotations

import threading

import pytest

from mirror_connect.spark_jobs.compute.feeder import TaskDiedError, relayed
from mirror_connect.spark_jobs.compute.feeder_socket import END, FeederListener
from tests.fakes.spark_rows import TOKEN


def test_a_task_that_dies_makes_the_feeder_fail() -> None:
    for number, last_words in enumerate((b"", b"\xff\xff\xff\xff", END)):
        listener = FeederListener(f"{TOKEN} died", number)

        def dies(listener: FeederListener = listener, words: bytes = last_words) -> None:
            with listener.accept(lambda: True) as connection:
                connection.sendall(words)

        task = threading.Thread(target=dies)
        task.start()
        with pytest.raises(TaskDiedError):
            list(relayed(f"{TOKEN} died", number))
        task.join()
        listener.close()
