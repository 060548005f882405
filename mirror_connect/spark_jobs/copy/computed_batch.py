"""A batch whose records Spark transforms: on its way there and back, until its flow takes what has become of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.record_transform import RecordTransform, setting_of_transform, transform_of
from mirror_connect.connectors.mirror.transform_sql import SQL, check_resolved
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import SkippedRecords
from mirror_connect.connectors.record_steps import Steps
from mirror_connect.connectors.task_protocol import SourceRange
from mirror_connect.kafka_io.records.record_batch import BatchView, ProducerBatch, first_timestamp


class Waiting(NamedTuple):
    """The records that a task waits for, of those that Spark or the function got at a time.

    `offsets`: the first and the last by partition. `seconds`: for how long no record has come back.
    """

    offsets: Mapping[TopicPartition, tuple[int, int]]
    seconds: float


class Computing(Protocol):
    """What takes batches to Spark and back. `transform`: what Spark does with them; no value of a secret is in it."""

    transform: RecordTransform

    def begin(
        self,
        secrets: Mapping[str, str],
        *,
        tolerant: bool = False,
        suspects: Sequence[SourceRange] = (),
        too_much: Sequence[SourceRange] = (),
    ) -> None:
        """In the event loop that batches will be submitted in. `secrets`: the values, by their names.

        `tolerant`: a record with an error is left out. Otherwise its batch ends before it, with a RecordError.
        `suspects`, `too_much`: see TaskSpec.
        """

    async def watch(self) -> None:
        """Ends only with the error after which no batch comes back any more. SparkLostError …"""

    def submit(self, batch: ComputedBatch) -> None:
        """Calls the batch's `end` later, in the event loop. A batch that is dropped meanwhile may never end."""

    def has_room(self) -> bool:
        """Whether batches may be submitted before their flow needs them."""

    def waits(self) -> Waiting | None:
        """What Spark, or the function, has got and not given back; None if there is nothing."""


def begin_computing(
    config: Mapping[str, str | None],
    computing: Computing | None,
    suspects: Sequence[SourceRange] = (),
    too_much: Sequence[SourceRange] = (),
) -> None:
    """Begins what a task's config wants. ConfigError if Spark does something else: then no record may be copied.

    ConfigError for a secret that its config provider does not give now, whatever it gave when the config was validated.

    `computing`: what this process has; None: nothing transforms its records. `suspects`, `too_much`: see TaskSpec.
    """
    wanted = transform_of(config)
    found = None if computing is None else computing.transform
    if (None if wanted is None else wanted.to_json()) != (None if found is None else found.to_json()):
        setting = SQL if wanted is None else setting_of_transform(wanted)
        raise ConfigError(setting, None, "Spark has another one for this task, or none. Restart the task")
    if computing is not None and wanted is not None:
        check_resolved(wanted.secrets)
        tolerant = config.get("errors.tolerance") == "all"
        computing.begin(wanted.secrets, tolerant=tolerant, suspects=suspects, too_much=too_much)


class ComputedBatch:
    """One batch on its way. It is made, dropped and taken in the event loop.

    `from_offset`: the first offset that is wanted of it. `steps`: transformations before Spark's. `last_offset`: that of the
    batch; `oldest_ms`: about the timestamp of its first record; `filtered`: how many records were dropped.
    `skipped`: with errors.tolerance=all, the records that could not be transformed; to be complete before `end`. `letters`:
    whether it keeps them all, for the dead letter topic.
    `on_made` is called when `take` may be called.
    """

    __slots__ = (
        "_ended",
        "_error",
        "_made",
        "_on_made",
        "dropped",
        "filtered",
        "from_offset",
        "last_offset",
        "oldest_ms",
        "partition",
        "skipped",
        "steps",
        "view",
    )  # fmt: skip

    def __init__(
        self,
        view: BatchView,
        from_offset: int,
        partition: TopicPartition,
        steps: Steps,
        on_made: Callable[[ComputedBatch], None],
        *,
        letters: bool = False,
    ) -> None:
        self.view = view
        self.from_offset = from_offset
        self.partition = partition
        self.steps = steps
        self.last_offset = view.last_offset
        self.oldest_ms = first_timestamp(view.data)
        self.filtered = 0
        self.skipped = SkippedRecords(letters=letters)
        # Read by other threads, too: what nobody wants needs no work.
        self.dropped = False
        self._on_made = on_made
        self._made: deque[ProducerBatch] = deque()
        self._error: Exception | None = None
        self._ended = False

    @property
    def busy(self) -> bool:
        """Whether it is still on its way."""
        return not self._ended

    def ready(self) -> bool:
        """Whether `take` may be called."""
        return self._ended

    def take(self) -> ProducerBatch | None:
        """The next piece, None after the last. CorruptBatchError, RecordError behind the pieces before the record."""
        if self._made:
            return self._made.popleft()
        if self._error is not None:
            raise self._error
        return None

    def drop(self) -> None:
        """Nothing of it is wanted any more. It is read again later, as another batch."""
        self.dropped = True
        self._made.clear()

    def end(self, made: Iterable[ProducerBatch], filtered: int, error: Exception | None = None) -> None:
        """This has become of it. Whoever has it submitted calls this once."""
        if self.dropped or self._ended:
            return
        self._ended = True
        self._made.extend(made)
        self.filtered = filtered
        self._error = error
        self._on_made(self)
