import random
from dataclasses import dataclass, field

import pytest

from mirror_connect.connectors.records.binary_records import UnreadableRecord
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.translation import offset_run_index
from mirror_connect.connectors.translation.offset_run_index import Kind, RunIndex, Translation, translated
from mirror_connect.connectors.translation.offset_runs import (
    NO_ID,
    RUNS_IN_SEGMENT,
    SLOTS,
    Run,
    RunRecorder,
    Segment,
    Standing,
    offset_runs_topic,
)

Log = list[tuple[bytes, bytes]]
FOREIGN = -1


def index_of(log: Log) -> RunIndex:
    index = RunIndex()
    for key, value in log:
        index.add(Segment.decode(key, value))
    return index


def compacted(log: Log) -> Log:
    newest = {key: place for place, (key, _) in enumerate(log)}
    return [log[place] for place in sorted(newest.values())]


def recorded(*acks: tuple[int, int, int]) -> Log:
    recorder = RunRecorder("t", 0)
    for upstream, count, downstream in acks:
        recorder.acked(upstream, count, downstream)
    return recorder.changed()


def offsets(index: RunIndex, *positions: int) -> list[int | None]:
    found = [index.translate(position) for position in positions]
    return [each.offset if each and each.exact else None for each in found]


@dataclass
class Mirror:
    """A partition, its target and its task, record by record: what the index is judged by.

    `target`: the upstream offset of each downstream record, FOREIGN for what is no copy. `position`: what connect-offsets
    holds, the next offset to read. `blind`: how often the topic of runs can't be written to.
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

    def __post_init__(self) -> None:
        offset = self.chance.choice([0, 0, 40])
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
        recorder = RunRecorder("t", 0, self.source_id, self.target_id)
        recorder.resume(index_of(self.log).newest, self.position or None)
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
            new = RunRecorder("t", 0, mirror.source_id, mirror.target_id)
            new.resume(index_of(mirror.log).newest, 0)
            mirror.log = began(mirror, new)
        elif event < 0.28 and mirror.next_record() < len(mirror.upstream):
            # The remote topic is created again; the source goes on.
            mirror.target_id = mirror.chance.randbytes(16)
            mirror.target, mirror.recorded = [], {}
            new = RunRecorder("t", 0, mirror.source_id, mirror.target_id)
            new.resume(index_of(mirror.log).newest, mirror.position)
            mirror.log = began(mirror, new)
        if mirror.chance.random() < 0.3:
            mirror.log = compacted(mirror.log)
        mirror.judge(20)


def began(mirror: Mirror, recorder: RunRecorder) -> Log:
    """A reader compares ids with the topics' of today; here the new incarnation's first record stands for that."""
    first = mirror.upstream[mirror.next_record()]
    recorder.acked(first, 1, len(mirror.target))
    mirror.target.append(first)
    mirror.position = first + 1
    return mirror.log + recorder.changed()


@pytest.mark.parametrize("seed", range(12))
def test_positions_that_went_on_without_their_runs_make_no_translation_skip_a_record(seed: int) -> None:
    mirror = Mirror(random.Random(seed), blind=0.5)
    for _ in range(12):
        mirror.live(mirror.chance.randint(1, 25))
        mirror.judge(20)
        if mirror.chance.random() < 0.15:
            mirror.position = mirror.chance.randint(0, mirror.position)
        if mirror.chance.random() < 0.3:
            mirror.log = compacted(mirror.log)
        mirror.judge(20)


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_with_gaps_is_recorded_as_its_runs_would_be_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    whole, single = RunRecorder("t", 0), RunRecorder("t", 0)
    upstream = downstream = 0
    for _ in range(30):
        if chance.random() < 0.1:
            upstream = chance.randint(0, upstream)
        runs = []
        for _ in range(chance.choice([1, 3, 300])):
            upstream += chance.choice([0, 1, 1, 5])
            runs.append((upstream, count := chance.randint(1, 4)))
            upstream += count
        downstream += chance.choice([0, 0, 2])
        linked = chance.random() < 0.8
        whole.acked_runs(runs, downstream, linked=linked)
        for i, (begins, count) in enumerate(runs):
            single.acked(begins, count, downstream, linked=linked or i > 0)
            downstream += count
        if chance.random() < 0.5:
            assert whole.changed() == single.changed()
    assert whole.changed() == single.changed()


def test_another_topic_of_the_same_name_begins_a_new_incarnation() -> None:
    recorder = RunRecorder("t", 0, b"s" * 16, b"t" * 16)
    recorder.acked(0, 10, 0)
    recorder.topics_are(b"n" * 16, b"t" * 16)
    recorder.acked(0, 5, 10)
    made = index_of(recorder.changed())
    assert made.newest is not None
    assert (made.newest.source_id, made.newest.since, offsets(made, 3, 7)) == (b"n" * 16, 1, [13, None])


@pytest.mark.parametrize("seed", range(10))
def test_once_all_is_mirrored_again_every_position_inside_the_runs_is_exact(seed: int) -> None:
    mirror = Mirror(random.Random(seed))
    for _ in range(40):
        mirror.live(20)
    mirror.position = 0
    while mirror.next_record() < len(mirror.upstream) or not mirror.clean:
        mirror.live(2000)
    index = index_of(compacted(mirror.log))
    kinds = {index.translate(u).kind for u in range(mirror.upstream[0], mirror.upstream[-1] + 2)}  # type: ignore[union-attr]
    assert kinds == {Kind.EXACT}


def test_a_position_inside_a_run_is_that_of_its_record() -> None:
    assert offsets(index_of(recorded((100, 50, 7))), 100, 120, 149, 150) == [7, 27, 56, 57]


def test_a_position_in_a_linked_gap_is_where_the_next_run_begins() -> None:
    assert offsets(index_of(recorded((0, 10, 0), (15, 5, 12))), 9, 10, 12, 15) == [9, 12, 12, 12]


def test_a_position_in_a_gap_of_unknown_content_has_the_end_of_the_run_before_as_floor() -> None:
    recorder = RunRecorder("t", 0)
    recorder.acked(0, 10, 0)
    recorder.acked(15, 5, 14, linked=False)
    index = index_of(recorder.changed())
    assert [index.translate(at) for at in (10, 12, 15)] == [
        Translation(10, Kind.EXACT),
        Translation(10, Kind.FLOOR),
        Translation(14, Kind.EXACT),
    ]


def test_below_the_runs_nothing_is_known() -> None:
    assert index_of(recorded((100, 50, 7))).translate(99) is None


def test_beyond_the_runs_their_end_is_a_floor() -> None:
    assert index_of(recorded((0, 10, 0))).translate(13) == Translation(10, Kind.FLOOR)


def test_without_segments_nothing_is_known() -> None:
    assert RunIndex().translate(5) is None


def test_a_restart_that_follows_on_goes_on_with_the_same_run() -> None:
    log = recorded((0, 10, 0))
    recorder = RunRecorder("t", 0)
    recorder.resume(index_of(log).newest, 10)
    recorder.acked(10, 5, 10)
    index = index_of(log + recorder.changed())
    assert (len(index.newest.runs) if index.newest else 0, offsets(index, 14)) == (1, [14])


def test_records_that_are_mirrored_again_count_where_they_are_now() -> None:
    log = recorded((0, 10, 0))
    recorder = RunRecorder("t", 0)
    recorder.resume(index_of(log).newest, 5)
    recorder.acked(5, 20, 10)
    assert offsets(index_of(log + recorder.changed()), 4, 5, 24) == [4, 10, 29]


def test_until_all_are_mirrored_again_the_first_of_the_others_is_as_far_as_is_safe() -> None:
    log = recorded((0, 10, 0))
    recorder = RunRecorder("t", 0)
    recorder.resume(index_of(log).newest, 5)
    recorder.acked(5, 2, 10)
    assert index_of(log + recorder.changed()).translate(6) == Translation(7, Kind.SAFE)


def test_copies_that_a_crash_left_unrecorded_are_not_skipped_while_they_are_the_only_ones() -> None:
    log = recorded((0, 10, 0))
    # The task that died had copied 10 to 14 to 10 to 14, unrecorded.
    recorder = RunRecorder("t", 0)
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
def test_runs_of_a_topic_that_was_created_again_count_no_more(source_id: bytes, target_id: bytes, base: int) -> None:
    first = RunRecorder("t", 0, b"s" * 16, b"t" * 16)
    first.acked(0, 10, 0)
    log = first.changed()
    second = RunRecorder("t", 0, source_id, target_id)
    second.resume(index_of(log).newest, 3)
    second.acked(3, 2, base)
    assert offsets(index_of(log + second.changed()), 2, 3) == [None, base]


@pytest.mark.parametrize(
    ("source_id", "target_id", "same"),
    [(b"s" * 16, b"t" * 16, True), (b"s" * 16, NO_ID, True), (b"S" * 16, NO_ID, False), (b"s" * 16, b"T" * 16, False)],
)
def test_a_reader_tells_runs_of_topics_that_are_gone(source_id: bytes, target_id: bytes, same: bool) -> None:
    recorder = RunRecorder("t", 0, b"s" * 16, b"t" * 16)
    recorder.acked(0, 10, 0)
    assert index_of(recorder.changed()).belongs_to(source_id, target_id) is same


def test_a_target_that_lost_records_begins_a_new_incarnation() -> None:
    recorder = RunRecorder("t", 0)
    recorder.acked(0, 10, 0)
    recorder.acked(10, 10, 4)
    index = index_of(recorder.changed())
    assert (index.translate(5), offsets(index, 10)) == (None, [4])


def test_only_what_changed_is_written_again() -> None:
    recorder = RunRecorder("t", 0)
    for offset in range(0, 2 * RUNS_IN_SEGMENT + 2, 2):
        recorder.acked(offset, 1, offset // 2)
    sizes = [len(recorder.changed())]
    recorder.acked(10_000, 1, 10_000)
    assert [*sizes, len(recorder.changed()), len(recorder.changed())] == [2, 1, 0]


def test_segments_lie_in_a_ring() -> None:
    recorder = RunRecorder("t", 0)
    log: Log = []
    for offset in range(0, 2 * RUNS_IN_SEGMENT * (SLOTS + 3), 2):
        recorder.acked(offset, 1, offset // 2)
        if offset % 1000 == 0:
            log += recorder.changed()
    log = compacted(log + recorder.changed())
    index = index_of(log)
    last = 2 * RUNS_IN_SEGMENT * (SLOTS + 3) - 2
    assert (len(log), index.translate(0), offsets(index, last - 1, last)) == (SLOTS, None, [last // 2, last // 2])


def test_a_reader_forgets_the_lowest_pieces_and_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_run_index, "MOST_PIECES", 64)
    index = index_of(recorded(*((2 * i, 1, i) for i in range(200))))
    assert (index.translate(10), offsets(index, *range(360, 399))) == (None, [-(-at // 2) for at in range(360, 399)])


@pytest.mark.parametrize("seed", range(5))
def test_a_reader_that_follows_knows_what_one_that_starts_anew_knows(seed: int) -> None:
    mirror = Mirror(random.Random(seed))
    following = RunIndex()
    for _ in range(8):
        known = len(mirror.log)
        mirror.live(20)
        for key, value in mirror.log[known:]:
            following.add(Segment.decode(key, value))
        positions = range(mirror.upstream[-1] + 5)
        anew = index_of(compacted(mirror.log))
        assert [following.translate(at) for at in positions] == [anew.translate(at) for at in positions]


def test_a_segment_is_read_as_it_was_written() -> None:
    recorder = RunRecorder("to-pic", 3, b"s" * 16, NO_ID)
    recorder.acked(5, 10, 1 << 40)
    recorder.acked(3, 1, (1 << 40) + 10)
    recorder.acked(1 << 50, 7, (1 << 50) + 3, linked=False)
    ((key, value),) = recorder.changed()
    segment = Segment.decode(key, value)
    assert (segment.key(), segment.value(), segment.topic, len(segment.runs)) == (key, value, "to-pic", 3)


def test_what_is_owed_is_kept_with_a_segment() -> None:
    segment = Segment("t", 0, 300, 2, NO_ID, NO_ID, Standing(10, 20, 12, 5, 15), ())
    assert Segment.decode(segment.key(), segment.value()) == segment


@pytest.mark.parametrize("cut", [0, 1, 2, 20, 41, 43, -1])
def test_cut_off_bytes_are_refused(cut: int) -> None:
    ((key, value),) = recorded((0, 300, 0))
    with pytest.raises(UnreadableRecord, match=r"^value of offset runs: [^\n]+$"):
        Segment.decode(key, value[:cut])


def test_another_version_is_refused() -> None:
    ((key, value),) = recorded((0, 300, 0))
    with pytest.raises(UnreadableRecord, match="version 1, only 0 is known"):
        Segment.decode(key, b"\0\1" + value[2:])


@pytest.mark.parametrize(
    ("topic", "partition", "before", "run"),
    [
        pytest.param("x" * 250, 0, Standing(), Run(0, 0, 1), id="name"),
        pytest.param("t", -1, Standing(), Run(0, 0, 1), id="partition"),
        pytest.param("t", 0, Standing(), Run(0, 2**62, 1), id="run"),
        # A reader keeps the floor of what lies between them as a number of 64 bits below -3.
        pytest.param("t", 0, Standing(5, 2**63 - 2, 5), Run(10, 2**63 - 2, 1), id="standing"),
    ],
)
def test_what_no_topic_can_hold_is_refused(topic: str, partition: int, before: Standing, run: Run) -> None:
    segment = Segment(topic, partition, 0, 0, NO_ID, NO_ID, before, (run,))
    with pytest.raises(UnreadableRecord, match=r"^(key|value) of offset runs: [^\n]+$"):
        Segment.decode(segment.key(), segment.value())


@pytest.mark.parametrize("number", [2**62 + 1, 2**63 - 1])
def test_a_number_that_no_segment_reaches_is_refused(number: int) -> None:
    segment = Segment("t", 0, number, number, NO_ID, NO_ID, Standing(), (Run(0, 0, 1),))
    with pytest.raises(UnreadableRecord, match=f"segment {number} since {number}"):
        Segment.decode(segment.key(), segment.value())


@pytest.mark.parametrize("source_id", [b"s" * 16, b"n" * 16], ids=["same_topic", "made_again"])
def test_behind_the_last_number_they_begin_anew(source_id: bytes) -> None:
    runs = tuple(Run(2 * i, i, 1) for i in range(RUNS_IN_SEGMENT))
    last = Segment("t", 0, 2**62, 7, b"s" * 16, b"t" * 16, Standing(), runs)
    recorder = RunRecorder("t", 0, source_id, b"t" * 16)
    recorder.resume(Segment.decode(last.key(), last.value()), reading_from=511)
    recorder.acked(600, 10, 256)
    recorder.acked(700, 10, 266)
    log = [(last.key(), last.value()), *recorder.changed()]
    newest = Segment.decode(*log[-1])
    assert (newest.number, newest.since, offsets(index_of(log), 605, 705)) == (0, 0, [261, 271])


@pytest.mark.parametrize(
    ("by_runs", "by_syncs", "position"),
    [
        pytest.param(None, 7, 7, id="runs_know_nothing"),
        pytest.param(Translation(5, Kind.EXACT), 7, 5, id="exact"),
        pytest.param(Translation(5, Kind.SAFE), 7, 5, id="a_sync_may_skip_what_is_mirrored_again"),
        pytest.param(Translation(5, Kind.FLOOR), 7, 7, id="a_sync_knows_more"),
        pytest.param(Translation(5, Kind.FLOOR), -1, 5, id="a_sync_knows_less"),
        pytest.param(Translation(5, Kind.FLOOR), None, 5, id="no_sync"),
    ],
)
def test_runs_come_before_syncs(by_runs: Translation | None, by_syncs: int | None, position: int) -> None:
    assert translated(by_runs, by_syncs) == position


def test_the_topic_is_internal_by_kafkas_own_rule() -> None:
    policy = DefaultReplicationPolicy("_", "_")
    assert (offset_runs_topic(policy, "A"), policy.is_internal(offset_runs_topic(policy, "A"))) == (
        "mm2-offset-runs_A_internal",
        True,
    )
