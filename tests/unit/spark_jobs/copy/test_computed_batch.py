"""A batch on its way through Spark, and a process that has another statement than the config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import SourceRange
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch, begin_computing
from tests.fakes.encoded_batches import encode, some_records
from tests.fakes.rewritten_batches import only

SQL = {"spark.transform.sql": "SELECT * FROM records", "spark.transform.secret.SALT": "pepper"}


class Computing:
    """What a process has."""

    def __init__(self, text: str, secret_names: tuple[str, ...]) -> None:
        self.transform = TransformSql(text, secret_names=secret_names)
        self.secrets: Mapping[str, str] | None = None

    def begin(
        self,
        secrets: Mapping[str, str],
        *,
        tolerant: bool = False,
        suspects: Sequence[SourceRange] = (),
        too_much: Sequence[SourceRange] = (),
    ) -> None:
        self.secrets, self.tolerant = secrets, tolerant
        self.records = suspects, too_much

    async def watch(self) -> None: ...

    def submit(self, batch: ComputedBatch) -> None: ...

    def waits(self) -> None: ...

    def has_room(self) -> bool:
        return True


def test_a_task_gets_its_secrets_with_its_spec() -> None:
    computing = Computing("SELECT * FROM records", ("SALT",))
    begin_computing(SQL, computing)
    assert (computing.secrets, computing.tolerant) == ({"SALT": "pepper"}, False)
    begin_computing({**SQL, "errors.tolerance": "all"}, computing)
    assert computing.tolerant
    suspects, too_much = [SourceRange("t", 0, 5, 9)], [SourceRange("t", 0, 3, 3)]
    begin_computing(SQL, computing, suspects, too_much)
    assert computing.records == (suspects, too_much)
    begin_computing({}, None)


@pytest.mark.parametrize(
    ("config", "computing"),
    [
        pytest.param(SQL, None, id="a_process_without_spark"),
        pytest.param({}, Computing("SELECT * FROM records", ()), id="a_config_without_a_statement"),
        pytest.param(SQL, Computing("SELECT key FROM records", ("SALT",)), id="another_statement"),
        pytest.param(SQL, Computing("SELECT * FROM records", ()), id="other_secrets"),
    ],
)
def test_a_task_whose_config_says_something_else_copies_nothing(
    config: Mapping[str, str], computing: Computing | None
) -> None:
    with pytest.raises(ConfigError, match="Restart the task"):
        begin_computing(config, computing)


def test_a_task_whose_secret_is_still_a_reference_copies_nothing() -> None:
    computing = Computing("SELECT * FROM records", ("SALT",))
    with pytest.raises(ConfigError) as refused:
        begin_computing({**SQL, "spark.transform.secret.SALT": "${env:SALT}"}, computing)
    assert refused.value.name == "spark.transform.secret.SALT"
    assert "SALT}" not in str(refused.value)
    assert computing.secrets is None


def test_an_error_of_a_record_comes_behind_the_records_before_it() -> None:
    batch = ComputedBatch(only(encode(some_records(1, 10))), 0, TopicPartition("orders", 0), (), lambda _: None)
    (piece,) = rewrite(batch.view, 0)
    batch.end([piece], 0, CorruptBatchError(9, "no"))
    assert batch.take() is piece
    with pytest.raises(CorruptBatchError):
        batch.take()
