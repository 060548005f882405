"""Translation by recorded offset ranges never skips a record."""

import random
from dataclasses import dataclass, field

import pytest

from mirror_connect.connectors.translation import offset_range_index
from mirror_connect.connectors.translation.offset_range_index import Kind, RangeIndex, Translation, translated
from mirror_connect.connectors.translation.offset_ranges import (
    NO_ID,
    RangeRecorder,
    Segment,
)
from tests.fakes.range_logs import Log, compacted, index_of, offsets, recorded

FOREIGN = -1


@dataclass
class Mirror:
    """A partition, its target and its task, record by record: what the index is judged by.

    `target`: the upstream offset of each downstream record, FOREIGN for what is no copy. `start`: where copying began. What
    is in front of the first `upstream` record, and in its gaps, is dropped. `position`: what connect-offsets holds, the
    next offset to read. `blind`: how often the topic of ranges can't be written to.
    """

    chance: random.Random
    upstream: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    log: Log = field(default_factory=list)
    position: int = 0
    source_id: bytes = b"s" * 16
    target_id: bytes = b"t" * 16
    clean: bool = True
    recorded: dict[int, int] = field(default_factory=dict)
    blind: float = 0.0
    start: int = 0

    def __post_init__(self) -> None:
        offset = self.chance.choice([0, 0, 40])
        self.start = self.chance.choice([0, offset // 2])
        for _ in range(300):
            self.upstream.append(offset)
            offset += 1 if self.chance.random() < 0.85 else self.chance.randint(2, 6)

    def dense(self, at: int, most: int) -> list[int]:
        """The next batch: records that follow each other without a gap."""
        batch = [self.upstream[at]]
        while len(batch) < most and at + len(batch) < len(self.upstream):
            if self.upstream[at + len(batch)] != batch[-1] + 1:
                break
            batch.append(self.upstream[at + len(batch)])
        return batch

    def next_record(self) -> int:
        return next((i for i, u in enumerate(self.upstream) if u >= self.position), len(self.upstream))

    def foreign(self) -> None:
        if self.chance.random() < 0.05:
            self.target += [FOREIGN] * self.chance.randint(1, 4)

    def live(self, batches: int) -> None:
        """One life of our task; it ends cleanly or by a crash, which may lose acks, segments and positions."""
        recorder = RangeRecorder("t", 0, self.source_id, self.target_id)
        recorder.resume(index_of(self.log).newest, self.position or None)
        if not self.position:
            recorder.begins(self.start)
        at, acked_to = self.next_record(), self.position
        acked: dict[int, int] = {}
        blind = False
        for _ in range(batches):
            if self.log and self.chance.random() < 0.1:
                blind = self.chance.random() < self.blind
            if at >= len(self.upstream):
                recorder.caught_up()
                break
            self.foreign()
            if not acked and self.position < self.upstream[0] and self.chance.random() < 0.3:
                # All is dropped so far.
                self.position = self.chance.randint(max(self.position, self.start) + 1, self.upstream[0])
                recorder.passed()
                self.log += recorder.changed()
                if self.chance.random() < 0.3:
                    self.clean = True
                    return
            batch = self.dense(at, self.chance.randint(1, 30))
            base = len(self.target)
            self.target += batch
            at += len(batch)
            if self.chance.random() < 0.03:
                self.clean = False
                return  # durable, but the ack never came
            recorder.acked(batch[0], len(batch), base)
            acked_to = batch[-1] + 1
            acked |= {u: base + i for i, u in enumerate(batch)}
            if self.chance.random() < 0.3:
                if not blind:
                    self.log += recorder.changed()
                    self.recorded |= acked
                if self.chance.random() < 0.8:
                    self.position = acked_to
            if self.chance.random() < 0.2:
                self.judge(4)
        self.clean = self.chance.random() < 0.5
        if self.clean:
            if not blind:
                self.log += recorder.changed()
                self.recorded |= acked
            self.position = acked_to

    def someone_else(self) -> None:
        """MirrorMaker for a while, ending cleanly."""
        at = self.next_record()
        piece = self.upstream[at : at + self.chance.randint(1, 60)]
        if piece:
            self.target += piece
            self.position = piece[-1] + 1

    def judge(self, positions: int) -> None:
        index = index_of(self.log)
        last = {u: d for d, u in enumerate(self.target) if u != FOREIGN}
        for _ in range(positions):
            wanted = self.chance.randint(0, self.upstream[-1] + 5)
            found = index.translate(wanted)
            if found is None:
                continue
            skipped = [u for u, d in last.items() if u >= wanted and d < found.offset]
            repeated = [u for u, d in self.recorded.items() if found.exact and u < wanted and d >= found.offset]
            assert (wanted, found, skipped, repeated) == (wanted, found, [], [])


@pytest.mark.parametrize("seed", range(24))
def test_a_translated_position_never_skips_a_record_and_an_exact_one_repeats_none(seed: int) -> None:
    mirror = Mirror(random.Random(seed))
    for _ in range(12):
        mirror.live(mirror.chance.randint(1, 25))
        mirror.judge(20)
        event = mirror.chance.random()
        if event < 0.1 and mirror.clean:
            mirror.someone_else()
        elif event < 0.2:
            mirror.position = mirror.chance.randint(0, mirror.position)  # set back by REST
        elif event < 0.24:
            # The source topic is created again; its remote stays.
            mirror.source_id = mirror.chance.randbytes(16)
            mirror.target = [FOREIGN] * len(mirror.target)
            mirror.recorded = {}
            mirror.position, mirror.upstream = 0, []
            mirror.__post_init__()
            new = RangeRecorder("t", 0, mirror.source_id, mirror.target_id)
            new.resume(index_of(mirror.log).newest, None)
            new.begins(mirror.start)
            mirror.log = began(mirror, new)
        elif event < 0.28 and mirror.next_record() < len(mirror.upstream):
            # The remote topic is created again; the source goes on.
            mirror.target_id = mirror.chance.randbytes(16)
            mirror.target, mirror.recorded = [], {}
            new = RangeRecorder("t", 0, mirror.source_id, mirror.target_id)
            new.resume(index_of(mirror.log).newest, mirror.position)
            mirror.log = began(mirror, new)
        if mirror.chance.random() < 0.3:
            mirror.log = compacted(mirror.log)
        mirror.judge(20)


def began(mirror: Mirror, recorder: RangeRecorder) -> Log:
    """A reader compares with the topics' present ids; here the new incarnation's first record has the same effect."""
    first = mirror.upstream[mirror.next_record()]
    recorder.acked(first, 1, len(mirror.target))
    mirror.target.append(first)
    mirror.position = first + 1
    return mirror.log + recorder.changed()


@pytest.mark.parametrize("seed", range(12))
def test_positions_that_went_on_without_their_ranges_make_no_translation_skip_a_record(seed: int) -> None:
    mirror = Mirror(random.Random(seed), blind=0.5)
    for _ in range(12):
        mirror.live(mirror.chance.randint(1, 25))
        mirror.judge(20)
        if mirror.chance.random() < 0.15:
            mirror.position = mirror.chance.randint(0, mirror.position)
        if mirror.chance.random() < 0.3:
            mirror.log = compacted(mirror.log)
        mirror.judge(20)


@pytest.mark.parametrize("seed", range(10))
def test_once_all_is_mirrored_again_every_position_inside_the_ranges_is_exact(seed: int) -> None:
    mirror = Mirror(random.Random(seed))
    for _ in range(40):
        mirror.live(20)
    mirror.position = 0
    while mirror.next_record() < len(mirror.upstream) or not mirror.clean:
        mirror.live(2000)
    index = index_of(compacted(mirror.log))
    kinds = {index.translate(u).kind for u in range(mirror.upstream[0], mirror.upstream[-1] + 2)}  # type: ignore[union-attr]
    front = [index.translate(u) for u in range(mirror.start, mirror.upstream[0])]
    assert (kinds, None in front) == ({Kind.EXACT}, False)
    assert mirror.start == 0 or index.translate(mirror.start - 1) is None


@pytest.mark.parametrize("seed", range(6))
def test_in_front_of_the_first_mirrored_record_every_position_is_exact_if_no_copy_is_unrecorded(seed: int) -> None:
    chance = random.Random(seed)
    start, log, newest = chance.choice([0, 7]), [], None
    position, first = start, start + chance.randint(1, 40)
    for life in range(chance.randint(1, 4)):
        recorder = RangeRecorder("t", 0)
        recorder.resume(newest, position if life else None)
        if not life:
            recorder.begins(start)
        position = chance.randint(position + 1, first) if position < first else first
        recorder.passed()
        log += recorder.changed()
        newest = index_of(log).newest
        assert [index_of(log).translate(at).offset for at in range(start, first)] == [0] * (first - start)  # type: ignore[union-attr]
    recorder.acked(first, 5, 0)
    index = index_of(compacted(log + recorder.changed()))
    assert offsets(index, *range(start - 1, first + 3)) == [None, *[0] * (first - start), 0, 1, 2]


def test_a_position_inside_a_range_is_that_of_its_record() -> None:
    assert offsets(index_of(recorded((100, 50, 7))), 100, 120, 149, 150) == [7, 27, 56, 57]


def test_a_position_in_a_linked_gap_is_where_the_next_range_begins() -> None:
    assert offsets(index_of(recorded((0, 10, 0), (15, 5, 12))), 9, 10, 12, 15) == [9, 12, 12, 12]


def test_a_position_in_a_gap_of_unknown_content_has_the_end_of_the_range_before_as_floor() -> None:
    recorder = RangeRecorder("t", 0)
    recorder.acked(0, 10, 0)
    recorder.acked(15, 5, 14, linked=False)
    index = index_of(recorder.changed())
    assert [index.translate(at) for at in (10, 12, 15)] == [
        Translation(10, Kind.EXACT),
        Translation(10, Kind.FLOOR),
        Translation(14, Kind.EXACT),
    ]


def test_in_front_of_the_start_nothing_is_known() -> None:
    recorder = RangeRecorder("t", 0)
    recorder.begins(90)
    recorder.acked(100, 50, 7)
    recorder.caught_up()
    assert offsets(index_of(recorder.changed()), 89, 90, 99, 100) == [None, 7, 7, 7]


def test_a_start_is_not_forgotten_where_copies_lie_that_nobody_recorded() -> None:
    first = RangeRecorder("t", 0)
    first.begins(0)
    first.passed()
    log = first.changed()
    # The task that died had passed 4 offsets, and had copied 6 and 7 to 0 and 1.
    second = RangeRecorder("t", 0)
    second.resume(index_of(log).newest, 4)
    second.acked(6, 2, 2)
    log = log + second.changed()
    assert index_of(log).translate(3) == index_of(compacted(log)).translate(3) == Translation(0, Kind.FLOOR)
    assert offsets(index_of(log), 6, 7) == [2, 3]


@pytest.mark.parametrize(("downstream", "found"), [(0, [None, 0, 0]), (3, [None, None, None])], ids=["none", "some"])
def test_in_front_of_source_offsets_without_ranges_another_copier_may_have_mirrored(
    downstream: int, found: list[int | None]
) -> None:
    recorder = RangeRecorder("t", 0)
    recorder.resume(None, 100)
    recorder.acked(110, 5, downstream)
    assert offsets(index_of(recorder.changed()), 99, 100, 109) == found


def test_in_another_topic_behind_those_source_offsets_it_may_have_mirrored_too() -> None:
    recorder = RangeRecorder("t", 0)
    recorder.resume(None, 100)
    recorder.begins(0)
    recorder.acked(5, 3, 7)
    assert offsets(index_of(recorder.changed()), 0, 4, 5, 7) == [None, None, 7, 9]


def test_copies_of_a_first_task_that_recorded_nothing_are_not_skipped_while_they_are_the_only_ones() -> None:
    # It had copied 3 to 7 to 0 to 4, and had committed nothing.
    recorder = RangeRecorder("t", 0)
    recorder.begins(0)
    recorder.acked(3, 2, 5)
    early = index_of(recorder.changed())
    recorder.acked(5, 3, 7)
    late = index_of(recorder.changed())
    assert [early.translate(at).offset for at in (0, 4, 6)] == [0, 0, 0]  # type: ignore[union-attr]
    assert offsets(late, 0, 2, 3, 7) == [5, 5, 5, 9]


def test_of_another_topic_that_was_found_late_no_start_is_known() -> None:
    recorder = RangeRecorder("t", 0, b"s" * 16)
    recorder.begins(0)
    recorder.acked(0, 10, 0)
    recorder.topics_are(b"n" * 16, NO_ID)
    recorder.acked(5, 3, 10)
    assert offsets(index_of(recorder.changed()), 0, 4, 5, 7) == [None, None, 10, 12]


def test_a_target_made_anew_begins_where_the_task_is() -> None:
    recorder = RangeRecorder("t", 0, b"s" * 16, b"t" * 16)
    recorder.begins(0)
    recorder.acked(0, 10, 0)
    recorder.topics_are(b"s" * 16, b"T" * 16)
    recorder.acked(15, 5, 0)
    assert offsets(index_of(recorder.changed()), 9, 10, 14, 15) == [None, 0, 0, 0]


def test_below_the_ranges_nothing_is_known() -> None:
    assert index_of(recorded((100, 50, 7))).translate(99) is None


def test_beyond_the_ranges_their_end_is_a_floor() -> None:
    assert index_of(recorded((0, 10, 0))).translate(13) == Translation(10, Kind.FLOOR)


def test_without_segments_nothing_is_known() -> None:
    assert RangeIndex().translate(5) is None


def test_records_that_are_mirrored_again_count_where_they_are_now() -> None:
    log = recorded((0, 10, 0))
    recorder = RangeRecorder("t", 0)
    recorder.resume(index_of(log).newest, 5)
    recorder.acked(5, 20, 10)
    assert offsets(index_of(log + recorder.changed()), 4, 5, 24) == [4, 10, 29]


def test_until_all_are_mirrored_again_the_first_of_the_others_is_as_far_as_is_safe() -> None:
    log = recorded((0, 10, 0))
    recorder = RangeRecorder("t", 0)
    recorder.resume(index_of(log).newest, 5)
    recorder.acked(5, 2, 10)
    assert index_of(log + recorder.changed()).translate(6) == Translation(7, Kind.SAFE)


def test_copies_that_a_crash_left_unrecorded_are_not_skipped_while_they_are_the_only_ones() -> None:
    log = recorded((0, 10, 0))
    # The task that died had copied 10 to 14 to 10 to 14, unrecorded.
    recorder = RangeRecorder("t", 0)
    recorder.resume(index_of(log).newest, 10)
    recorder.acked(10, 2, 15)
    caught_up = index_of(log + recorder.changed()).translate(11)
    recorder.acked(12, 3, 17)
    assert (caught_up, offsets(index_of(log + recorder.changed()), 11)) == (Translation(10, Kind.SAFE), [16])


@pytest.mark.parametrize(
    ("source_id", "target_id", "base"),
    [
        pytest.param(b"S" * 16, b"t" * 16, 10, id="source"),
        pytest.param(b"s" * 16, b"T" * 16, 0, id="target"),
    ],
)
def test_ranges_of_a_topic_that_was_created_again_count_no_more(source_id: bytes, target_id: bytes, base: int) -> None:
    first = RangeRecorder("t", 0, b"s" * 16, b"t" * 16)
    first.acked(0, 10, 0)
    log = first.changed()
    second = RangeRecorder("t", 0, source_id, target_id)
    second.resume(index_of(log).newest, 3)
    second.acked(3, 2, base)
    assert offsets(index_of(log + second.changed()), 2, 3) == [None, base]


@pytest.mark.parametrize(
    ("source_id", "target_id", "same"),
    [(b"s" * 16, b"t" * 16, True), (b"s" * 16, NO_ID, True), (b"S" * 16, NO_ID, False), (b"s" * 16, b"T" * 16, False)],
)
def test_a_reader_tells_ranges_of_topics_that_are_gone(source_id: bytes, target_id: bytes, same: bool) -> None:
    recorder = RangeRecorder("t", 0, b"s" * 16, b"t" * 16)
    recorder.acked(0, 10, 0)
    assert index_of(recorder.changed()).belongs_to(source_id, target_id) is same


def test_a_target_that_lost_records_begins_a_new_incarnation() -> None:
    recorder = RangeRecorder("t", 0)
    recorder.acked(0, 10, 0)
    recorder.acked(10, 10, 4)
    index = index_of(recorder.changed())
    assert (index.translate(5), offsets(index, 10)) == (None, [4])


def test_a_reader_forgets_the_lowest_pieces_and_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_range_index, "MOST_PIECES", 64)
    index = index_of(recorded(*((2 * i, 1, i) for i in range(200))))
    assert (index.translate(10), offsets(index, *range(360, 399))) == (None, [-(-at // 2) for at in range(360, 399)])


@pytest.mark.parametrize("seed", range(5))
def test_a_reader_that_follows_knows_what_one_that_starts_anew_knows(seed: int) -> None:
    mirror = Mirror(random.Random(seed))
    following = RangeIndex()
    for _ in range(8):
        known = len(mirror.log)
        mirror.live(20)
        for key, value in mirror.log[known:]:
            following.add(Segment.decode(key, value))
        positions = range(mirror.upstream[-1] + 5)
        anew = index_of(compacted(mirror.log))
        assert [following.translate(at) for at in positions] == [anew.translate(at) for at in positions]


@pytest.mark.parametrize(
    ("by_ranges", "by_syncs", "position"),
    [
        pytest.param(None, 7, 7, id="ranges_know_nothing"),
        pytest.param(Translation(5, Kind.EXACT), 7, 5, id="exact"),
        pytest.param(Translation(5, Kind.SAFE), 7, 5, id="a_sync_may_skip_what_is_mirrored_again"),
        pytest.param(Translation(5, Kind.FLOOR), 7, 7, id="a_sync_knows_more"),
        pytest.param(Translation(5, Kind.FLOOR), -1, 5, id="a_sync_knows_less"),
        pytest.param(Translation(5, Kind.FLOOR), None, 5, id="no_sync"),
    ],
)
def test_ranges_come_before_syncs(by_ranges: Translation | None, by_syncs: int | None, position: int) -> None:
    assert translated(by_ranges, by_syncs) == position
