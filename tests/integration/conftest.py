"""Brokers that the tests of this folder share; what a test breaks it starts for itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.local import Listener, LocalCluster
from tests.brokers import UNHURRIED


@pytest.fixture(scope="session")
def one_broker() -> Iterator[LocalCluster]:
    """One broker for every test that only adds names of its own to it: a PLAINTEXT and a SASL listener, no ACLs."""
    listeners = (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT)
    users = {"worker": "right-password"}
    with LocalCluster("shared", listeners=listeners, users=users, properties=UNHURRIED) as cluster:
        yield cluster


@pytest.fixture
def own_broker() -> Iterator[LocalCluster]:
    """A broker to kill, suspend and restart."""
    with LocalCluster("own") as cluster:
        yield cluster


@pytest.fixture
def source(clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    """Where records are copied from, of the `clusters` of a file or folder."""
    return clusters[0]


@pytest.fixture
def target(clusters: tuple[LocalCluster, LocalCluster]) -> LocalCluster:
    """Where they are copied to."""
    return clusters[1]
