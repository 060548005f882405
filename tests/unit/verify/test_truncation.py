"""Which answers of its leader say that a log isn't the one any more that was compared."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_connect.kafka_io.consumer.record_reader import Told
from mirror_connect.verify.place import CannotCompareError, Key, Partition, Place
from mirror_connect.verify.truncation import truncations

KEY = Partition("t", 0)
TRUNCATED = (
    "was truncated at offset {} meanwhile, as by an unclean leader election, it had 700 when the comparison began"
)


class Logs:
    """`now`: its end, None where nobody tells. `ended`: where epoch 4 did; an error: nobody tells that."""

    place: Place = "target"

    def __init__(self, now: Told | None, ended: int | CannotCompareError | None) -> None:
        self.now = now
        self.ended = ended

    async def told(self, wanted: Mapping[Key, int]) -> tuple[dict[Key, Told], str]:
        return ({}, "no answer") if self.now is None else (dict.fromkeys(wanted, self.now), "")

    async def epoch_end(self, key: Partition, epoch: int) -> int | None:
        assert (key, epoch) == (KEY, 4)
        if isinstance(self.ended, CannotCompareError):
            raise self.ended
        return self.ended


NOT_ASKED = CannotCompareError("this must not be asked for")


@pytest.mark.parametrize(
    ("now", "ended", "line"),
    [
        pytest.param(Told(900, 4), NOT_ASKED, None, id="the_same_leader"),
        pytest.param(Told(600, 4), NOT_ASKED, TRUNCATED.format(600), id="shorter_under_the_same_epoch"),
        pytest.param(Told(900, 6), 700, None, id="another_leader_that_has_all"),
        pytest.param(Told(900, 6), 400, TRUNCATED.format(400), id="another_leader_and_a_log_that_has_grown_again"),
        pytest.param(Told(500, 6), 400, TRUNCATED.format(400), id="another_leader_and_a_shorter_log"),
        pytest.param(Told(600, 6), None, TRUNCATED.format(600), id="no_epochs_in_the_log_and_shorter"),
        pytest.param(Told(900, 6), None, None, id="no_epochs_in_the_log"),
        pytest.param(Told(900, -1), NOT_ASKED, None, id="no_epochs_are_told"),
        pytest.param(Told(900, 6), CannotCompareError("no leader"), "nobody tells: no leader", id="no_leader_any_more"),
        pytest.param(None, NOT_ASKED, "nobody tells: no answer", id="nobody_answers"),
    ],
)
async def test_a_log_that_was_truncated_since_is_told(
    now: Told | None, ended: int | CannotCompareError | None, line: str | None
) -> None:
    found = await truncations(Logs(now, ended), {KEY: Told(700, 4)})
    if line is None:
        assert found == {}
    else:
        assert line in found[KEY]
        assert found[KEY].startswith(("the target's log of t-0", "whether the target's log"))
