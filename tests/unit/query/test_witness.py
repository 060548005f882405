"""What Spark's processes tell the command."""

from __future__ import annotations

from multiprocessing import get_context
from pathlib import Path

from mirror_connect.query.witness import FileWitness


def test_bytes_of_all_processes_are_counted(tmp_path: Path) -> None:
    witness = FileWitness(str(tmp_path))
    assert witness.bytes_read == 0
    witness.read(4 << 20)
    witness.read(1)
    other = get_context("spawn").Process(target=witness.read, args=(2 << 20,))
    other.start()
    other.join()
    assert witness.bytes_read == (6 << 20) + 1024


def test_the_first_failure_counts(tmp_path: Path) -> None:
    witness = FileWitness(str(tmp_path))
    assert witness.failure is None
    witness.failed("größer")
    witness.failed("later")
    assert witness.failure == "größer"
