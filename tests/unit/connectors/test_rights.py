"""The line about a missing right, made from the error's parts."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.rights import (
    IDEMPOTENT_WRITE,
    SOURCE_USER,
    TARGET_USER,
    WORKER_USER,
    MissingRight,
    Right,
    on_cluster,
    on_group,
    on_topic,
    on_transactional_id,
    to_create,
)


@pytest.mark.parametrize(
    ("right", "user", "line"),
    [
        (on_topic("READ", "orders"), SOURCE_USER, "grant READ on topic orders to the source user"),
        (
            to_create("A.orders"),
            TARGET_USER,
            "grant CREATE on topic A.orders (or on the cluster; if it exists, DESCRIBE on it) to the target user",
        ),
        (on_group("READ", "connect"), WORKER_USER, "grant READ on group connect to the worker's user"),
        (
            on_transactional_id("c-0"),
            WORKER_USER,
            "grant WRITE and DESCRIBE on transactional id c-0 to the worker's user",
        ),
        (on_cluster("ALTER"), TARGET_USER, "grant ALTER on the cluster to the target user"),
        (
            IDEMPOTENT_WRITE,
            TARGET_USER,
            "grant IDEMPOTENT_WRITE on the cluster (since Kafka 2.8 WRITE on any topic does) to the target user",
        ),
    ],
    ids=["topic", "create", "group", "transactional_id", "cluster", "idempotent"],
)
def test_a_missing_right_says_what_to_grant_to_whom(right: Right, user: str, line: str) -> None:
    error = MissingRight("topic orders was not created", right, user)
    assert str(error) == f"topic orders was not created: {line}"
    assert (error.right, error.user) == (right, user)
