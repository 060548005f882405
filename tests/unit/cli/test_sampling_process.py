"""The worker's first line for the sampling process, and the verification that it starts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mirror_connect.cli import sampling_process
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from mirror_connect.verify.link import Link

CONFIG = {
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "topics": ".*",
    "topics.exclude": "",
    "replication.policy.class": IDENTITY_POLICY,
}
JOB = {
    "name": "m",
    "config": CONFIG,
    "target": {"bootstrap.servers": "b:9092"},
    "cpu_share": 0.05,
    "kept": ["connect-configs"],
}


async def test_names_that_no_copy_may_have_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[Link] = []

    class Heard:
        def __init__(self, link: Link, *_: object) -> None:
            followed.append(link)

        async def run(self) -> None:
            """There is no cluster to follow."""

    def told(loop: asyncio.AbstractEventLoop, heard: asyncio.Queue[Any]) -> None:
        loop.call_soon_threadsafe(heard.put_nowait, JOB)

    monkeypatch.setattr(sampling_process, "_read_lines", told)
    monkeypatch.setattr(sampling_process, "SamplingVerifier", Heard)
    await sampling_process._verify_samples()
    (link,) = followed
    # The worker's own topic would be overwritten by a copy, so the connector makes none, and none is missing.
    assert [link.selection.should_replicate(topic) for topic in ("orders", "connect-configs")] == [True, False]
