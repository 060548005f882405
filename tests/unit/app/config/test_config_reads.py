"""Reads that hang, and who goes on all the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from mirror_connect.app.config.config_providers import Explained
from mirror_connect.app.config.config_reads import ConfigReads
from mirror_connect.app.errors import BadRequest
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.validation import ConfigRules, Validation
from mirror_connect.app.worker_connectors.resolved_task_configs import ResolvedTaskConfigs
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import source_config

HANGING = "${file:/share/secrets:password}"
BLOCKED = 6


class Share:
    """Config providers whose every file lies on a share that doesn't answer until the test is over."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.asked = 0

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        if any("${" in value for value in config.values()):
            self.asked += 1
            self.answers.wait(200)
        return dict(config)

    preview = resolve

    def explained(self, config: Mapping[str, str]) -> Explained:
        return Explained(self.resolve(config), {})


@pytest.fixture
def share() -> Iterator[Share]:
    made = Share()
    yield made
    made.answers.set()


@pytest.fixture
async def small_machine() -> None:
    """The loop's default executor as it is with two cores."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(BLOCKED))


async def test_six_reads_that_hang_leave_writes_and_the_default_executor_working(
    share: Share, small_machine: None
) -> None:
    validation = Validation(share, ConfigRules(), ConfigNotices())
    runs = ResolvedTaskConfigs(share.resolve)
    hanging = {**source_config(), "client.id": HANGING}
    blocked = [asyncio.create_task(validation.check({"name": "a", **hanging})) for _ in range(BLOCKED)]
    blocked += [asyncio.create_task(runs.of(TaskId("a", n), "run", hanging)) for n in range(BLOCKED)]
    while share.asked < 2:
        await asyncio.sleep(0.01)
    try:
        async with asyncio.timeout(60):
            # As the restart of Spark does, which kills a tree and removes a scratch directory there.
            await asyncio.gather(*(asyncio.to_thread(lambda: None) for _ in range(BLOCKED)))
            await validation.check({"name": "b", **source_config()})
            await runs.of(TaskId("b", 0), "run", source_config())
    finally:
        share.answers.set()
        await asyncio.gather(*blocked, return_exceptions=True)


async def test_a_read_that_hangs_is_given_up_with_a_line(share: Share) -> None:
    reads = ConfigReads(share.resolve, "test", patience_s=0.5)
    for _ in range(BLOCKED):
        with pytest.raises(ConfigError, match=r"reading the references of the config took more than 0\.5 s") as caught:
            await reads.resolve({"client.id": HANGING})
        assert HANGING not in str(caught.value)
    # Those that came to no thread are forgotten, and not read when the share is there again.
    share.answers.set()
    reads._patience_s = 60.0
    assert await reads.resolve({"client.id": HANGING}) == {"client.id": HANGING}
    assert share.asked == 4 + 1


async def test_a_request_whose_read_hangs_is_a_bad_one(share: Share, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConfigReads.__init__, "__defaults__", (0.1,))
    with pytest.raises(BadRequest, match="look for a file on a share"):
        await Validation(share, ConfigRules(), ConfigNotices()).check({**source_config(), "client.id": HANGING})
