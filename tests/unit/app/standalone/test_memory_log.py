"""A log in memory: the stores work on it as on a topic, and one bad record keeps no other back."""

from __future__ import annotations

import pytest

from mirror_connect.app.standalone.memory_log import MemoryLog
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord


async def test_a_config_is_there_when_its_write_returns() -> None:
    configs = ConfigStore(MemoryLog("configs"))
    await configs.start()
    await configs.claim()
    await configs.put_connector("c", {"a": "b"}, "PAUSED")
    await configs.put_task_configs("c", [{"task": "0"}])
    found = configs.snapshot()
    assert (found.target_state("c"), found.tasks("c")) == ("PAUSED", [{"task": "0"}])


async def test_a_record_that_its_reader_fails_on_keeps_no_other_back(caplog: pytest.LogCaptureFixture) -> None:
    log, read = MemoryLog("configs"), []

    def take(record: LogRecord) -> None:
        read.append(record.key)
        if record.key == b"bad":
            raise ValueError

    await log.start(take)
    await log.append_all([(b"bad", b"1"), (b"good", None)])
    assert read == [b"bad", b"good"]
    assert "offset 0 is skipped" in caplog.text
    await log.stop()
    await log.append(b"late", b"1")
    assert read == [b"bad", b"good"]
