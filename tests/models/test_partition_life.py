"""Whatever happens to a partition, nothing is lost, skipped or out of order, and no position is ahead of its data.

Each example is a schedule (schedules.py). A failed one is printed by hypothesis, smaller than it was found, with the line
that runs it again. That such schedules find faults is shown by test_faults_put_back.py.
"""

from __future__ import annotations

from unittest import mock

import pytest

from mirror_connect.kafka_io.client.copier_settings import WINDOW
from mirror_connect.kafka_io.producer.target_partition import TargetPartition
from mirror_connect.spark_jobs.tasks import source_commits
from tests.fakes.simulated_time import run_simulated
from tests.models.life import Incident, Schedule, live
from tests.models.life_clusters import PARTITIONS
from tests.models.schedules import EXAMPLES, lives

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def test_whatever_happens_no_record_is_lost_and_no_position_is_ahead() -> None:
    lives()


def test_batches_larger_than_the_target_takes_keep_their_order_through_kills() -> None:
    lives(("limit", "kill", "lose", "refuse", "slow", "epoch"))


def test_a_truncated_source_is_told_and_copied_from_where_it_diverges_through_kills_and_splits() -> None:
    lives(("truncate", "truncate", "kill", "limit", "slow", "lose", "hand_over", "make_again", "leader"), most=20)


def test_what_was_fetched_and_given_back_is_copied_in_order_through_kills_and_truncations() -> None:
    lives(("deny", "deny", "slow", "lose", "kill", "limit", "truncate", "make_again", "hand_over", "epoch"))


def test_a_target_that_sets_the_times_now_and_then_loses_nothing_and_keeps_the_order() -> None:
    # A broker forgets a producer by the times that records have there.
    kinds = ("append_time",) * 3 + ("lose", "kill", "slow", "epoch", "refuse", "forget", "one_passes", "late_and_lost")
    lives((*kinds, "written_and_refused", "refused_for_good", "limit", "hand_over"), examples=EXAMPLES // 4)


def repeats_at_the_end_of_an_epoch() -> int:
    shapes = (("plain", 10, 100), ("plain", 11, 100)) * 30
    incidents = (Incident(0.1, "slow", 3), Incident(1.0, "epoch", 0), Incident(1.0, "epoch", 1))
    life = run_simulated(live(Schedule(shapes, incidents, old=False, seed=1)))
    return sum(watch.repeats for watch in life.watches)


def test_the_end_of_an_epoch_repeats_nothing_of_what_a_thin_link_carries() -> None:
    assert repeats_at_the_end_of_an_epoch() == 0
    with mock.patch.object(source_commits, "EPOCH_SETTLE_S", source_commits.SETTLE_S):
        assert repeats_at_the_end_of_an_epoch() > 0


def refused_for_their_size() -> int:
    """Batches, of some thirty in each partition that the target doesn't take."""
    shapes = (("plain", 30, 400), ("plain", 31, 400)) * 40
    life = run_simulated(live(Schedule(shapes, (Incident(0.5, "limit", 1),), old=False, seed=1)))
    return life.target.too_large


def test_when_one_batch_was_refused_for_its_size_the_following_ones_are_split_before_they_are_sent() -> None:
    # Those that were on their way, and no more.
    assert 0 < refused_for_their_size() <= WINDOW * PARTITIONS
    with mock.patch.object(TargetPartition, "_fitting", lambda _, batch: [batch]):
        assert refused_for_their_size() > 3 * WINDOW * PARTITIONS


def test_what_was_written_and_then_refused_as_too_large_is_not_told_as_somebody_elses() -> None:
    # The answer to a batch is lost, the topic's limit is lowered, and the batch goes again in pieces: it is there twice.
    shapes = (("plain", 1, 0), ("plain", 2, 0), ("plain", 1, 0), ("plain", 10, 400))
    incidents = (
        *(Incident(0.0, "lose", 0), Incident(0.0, "kill", 0), Incident(0.023, "slow", 2)),
        *(Incident(0.802, "epoch", 0), Incident(1.691, "lose", 0), Incident(2.792, "limit", 0)),
    )
    run_simulated(live(Schedule(shapes, incidents, old=False, seed=0)))


def test_behind_a_batch_that_was_written_and_then_refused_nothing_takes_its_sequence() -> None:
    # A position's answer is lost, the limit of the topic of positions is lowered, and it is refused. The broker would take
    # the next one under its sequence for the same again, and drop it.
    shapes = (*(("plain", 1, 0),) * 4, ("plain", 10, 0), *(("plain", 1, 0),) * 5)
    incidents = (
        *(Incident(0.633, "limit", 0), Incident(1.165, "truncate", 0), Incident(0.275, "truncate", 0)),
        *(Incident(0.872, "truncate", 0), Incident(0.344, "hand_over", 0), Incident(0.011, "truncate", 7)),
        *(Incident(0.374, "lose", 6), Incident(1.766, "truncate", 0), Incident(0.379, "leader", 1)),
        *(Incident(0.344, "slow", 7), Incident(1.342, "slow", 8), Incident(0.247, "leader", 5)),
        *(Incident(1.022, "truncate", 5), Incident(2.693, "hand_over", 5)),
    )
    run_simulated(live(Schedule(shapes, incidents, old=False, seed=1798701)))


def test_what_was_written_behind_a_refused_batch_is_not_told_as_somebody_elses() -> None:
    incidents = (
        Incident(0.0, "hand_over", 0),
        Incident(0.023, "late_and_lost", 1),
        Incident(0.023, "refused_for_good", 0),
    )
    run_simulated(live(Schedule((("plain", 1, 0),) * 9, incidents, old=False, seed=0)))


def test_a_truncation_like_one_of_the_former_topic_is_told_too() -> None:
    # At the same offset, under a leader epoch of the same number.
    incidents = (
        *(Incident(0.0, "truncate", 0), Incident(0.003, "truncate", 0), Incident(0.303, "make_again", 0)),
        *(Incident(0.403, "truncate", 0), Incident(0.503, "truncate", 0)),
    )
    run_simulated(live(Schedule((("plain", 1, 0),) * 4, incidents, old=False, seed=0)))
