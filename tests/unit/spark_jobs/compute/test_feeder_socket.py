"""Task and feeder find each other, no stranger is taken for either, and nobody waits for ever."""

from __future__ import annotations

import socket
import threading

import pytest

from mirror_connect.spark_jobs.compute import (
    feeder_socket,
)
from mirror_connect.spark_jobs.compute.feeder_socket import FeederListener, NoPeerError, connect
from tests.fakes.spark_rows import PARTITION, TOKEN


def test_strangers_are_not_taken_for_the_feeder() -> None:
    listener = FeederListener(TOKEN, -1)
    strangers = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for each in strangers:
        each.connect(listener._name)
    strangers[0].sendall(bytes(32))
    found = []
    feeder = threading.Thread(target=lambda: found.append(connect(TOKEN, -1)))
    feeder.start()
    with listener.accept(lambda: True) as connection:
        feeder.join()
        connection.sendall(b"rows")
        assert found[0].recv(4) == b"rows"
    for each in (*strangers, *found):
        each.close()
    listener.close()


def test_a_feeder_that_did_not_wait_for_the_answer_connects_again() -> None:
    listener = FeederListener(TOKEN, -3)
    with socket.socket(socket.AF_UNIX) as impatient:
        impatient.connect(listener._name)
        impatient.sendall(feeder_socket._proof(TOKEN, feeder_socket._FEEDER, listener._name))
    found = []
    feeder = threading.Thread(target=lambda: found.append(connect(TOKEN, -3)))
    feeder.start()
    with listener.accept(lambda: True) as connection:
        feeder.join()
        connection.sendall(b"rows")
        assert found[0].recv(4) == b"rows"
    found[0].close()
    listener.close()


def test_nobody_waits_for_ever() -> None:
    listener = FeederListener(TOKEN, -2)
    with pytest.raises(NoPeerError):
        listener.accept(lambda: True, 0.1)
    with pytest.raises(NoPeerError):
        listener.accept(lambda: False)
    listener.close()
    with pytest.raises(NoPeerError):
        connect(TOKEN, -2, 0.1)
    assert PARTITION.partition == 3
