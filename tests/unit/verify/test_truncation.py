"""A leader's answers show whether a log was truncated since it was compared."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.record_reader import ListedOffset
from mirror_connect.verify.clusters import ClusterRole
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.truncation import truncations

KEY = TopicPartition("t", 0)
TRUNCATED = (
    "was truncated at offset {} during the comparison, as by an unclean leader election. It ended at offset 700 before"
)


class Logs:
    """`now`: the log's end, None if no broker answers. `ended`: the end of epoch 4, or the error of asking for it."""

    role: ClusterRole = "target"

    def __init__(self, now: ListedOffset | None, ended: int | CannotCompareError | None) -> None:
        self.now = now
        self.ended = ended

    async def listed_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, ListedOffset], str]:
        return ({}, "no answer") if self.now is None else (dict.fromkeys(wanted, self.now), "")

    async def epoch_end(self, key: TopicPartition, epoch: int) -> int | None:
        assert (key, epoch) == (KEY, 4)
        if isinstance(self.ended, CannotCompareError):
            raise self.ended
        return self.ended


NOT_ASKED = CannotCompareError("this must not be asked for")


@pytest.mark.parametrize(
    ("now", "ended", "line"),
    [
        pytest.param(ListedOffset(900, 4), NOT_ASKED, None, id="the_same_leader"),
        pytest.param(ListedOffset(600, 4), NOT_ASKED, TRUNCATED.format(600), id="shorter_under_the_same_epoch"),
        pytest.param(ListedOffset(900, 6), 700, None, id="another_leader_that_has_all"),
        pytest.param(
            ListedOffset(900, 6), 400, TRUNCATED.format(400), id="another_leader_and_a_log_that_has_grown_again"
        ),
        pytest.param(ListedOffset(500, 6), 400, TRUNCATED.format(400), id="another_leader_and_a_shorter_log"),
        pytest.param(ListedOffset(600, 6), None, TRUNCATED.format(600), id="no_epochs_in_the_log_and_shorter"),
        pytest.param(ListedOffset(900, 6), None, None, id="no_epochs_in_the_log"),
        pytest.param(ListedOffset(900, -1), NOT_ASKED, None, id="no_epochs_are_told"),
        pytest.param(
            ListedOffset(900, 6),
            CannotCompareError("no leader"),
            "during the comparison: no leader",
            id="no_leader_any_more",
        ),
        pytest.param(None, NOT_ASKED, "during the comparison: no answer", id="nobody_answers"),
    ],
)
async def test_a_log_that_was_truncated_since_is_told(
    now: ListedOffset | None, ended: int | CannotCompareError | None, line: str | None
) -> None:
    found = await truncations(Logs(now, ended), {KEY: ListedOffset(700, 4)})
    if line is None:
        assert found == {}
    else:
        assert line in found[KEY]
        assert found[KEY].startswith(("the target's log of t-0", "it is unknown whether the target's log"))
