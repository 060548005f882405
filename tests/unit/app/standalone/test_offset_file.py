"""The offset file of standalone mode: Kafka's own bytes, whatever else a file may hold, and crashes of a write."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_connect.app.standalone import offset_file
from mirror_connect.app.standalone.offset_file import (
    OffsetFileError,
    decode,
    encode,
    read_offset_file,
    write_offset_file,
)
from tests.contract.record_offset_files import recorded

VECTORS = {each["name"]: each for each in recorded()}
# Java reads these too, but Kafka never writes them.
REFUSED = ("linked", "other", "json")
OURS = [name for name in VECTORS if name not in REFUSED]
OFFSETS = st.dictionaries(st.binary(max_size=40), st.none() | st.binary(max_size=40), max_size=60)
ONE = encode({b"k": b"v"})
# Its value is eleven bytes, and one ends the map.
VALUE_NEXT = ONE[:-12]


def content(name: str) -> bytes:
    return bytes.fromhex(VECTORS[name]["file"])


def entries_of(vector: dict[str, Any]) -> dict[bytes, bytes | None]:
    """What Kafka's class had after it read the file."""
    return {
        bytes.fromhex(key): value if value is None else bytes.fromhex(value)
        for key, value in vector["recorded"].items()
        if key != "null"
    }


@pytest.mark.parametrize("name", OURS)
def test_what_java_wrote_is_read_as_java_reads_it(name: str) -> None:
    assert decode(content(name)) == entries_of(VECTORS[name])


@pytest.mark.parametrize(
    "name", [name for name, each in VECTORS.items() if each["kind"] == "store" and name != "null_key"]
)
def test_the_same_entries_in_the_same_order_are_the_bytes_that_java_wrote(name: str) -> None:
    assert encode(decode(content(name))) == content(name)


@pytest.mark.parametrize("name", REFUSED)
def test_whatever_else_a_file_holds_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"it does not begin as one|it holds something else"):
        decode(content(name))


@given(OFFSETS)
def test_what_is_written_is_read_again_in_its_order(offsets: dict[bytes, bytes | None]) -> None:
    assert list(decode(encode(offsets)).items()) == list(offsets.items())


@given(st.sampled_from(OURS), st.integers(min_value=1))
def test_a_file_that_is_cut_off_is_no_file_of_fewer_offsets(name: str, size: int) -> None:
    whole = content(name)
    # Without any byte it is an empty one.
    if len(whole) > 1:
        with pytest.raises(ValueError, match="cut off"):
            decode(whole[: 1 + size % (len(whole) - 1)])


@given(st.sampled_from(OURS), st.data())
def test_bytes_that_changed_are_an_error_of_their_own_or_other_offsets(name: str, data: st.DataObject) -> None:
    damaged = bytearray(content(name))
    for _ in range(data.draw(st.integers(1, 4))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(bytes(damaged))
    except ValueError:
        return
    assert all(isinstance(key, bytes) for key in found)


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        pytest.param(ONE + b"\0", "more behind the HashMap", id="more_behind_the_map"),
        pytest.param(ONE[:-1] + b"\x70\x70\x78", "more in the HashMap", id="more_entries_than_it_says"),
        pytest.param(ONE.replace(b"[B", b"[C"), "something else than bytes", id="array_of_chars"),
        pytest.param(VALUE_NEXT + b"\x74\0\x01v\x78", "no byte", id="a_text"),
        pytest.param(ONE.replace(b"\x00\x00\x00\x01v", b"\xff\xff\xff\xffv"), "negative", id="negative_length"),
        pytest.param(ONE.replace(b"\x00\x00\x00\x01v", b"\x7f\xff\xff\xffv"), "cut off", id="length_of_2_GiB"),
        pytest.param(
            ONE.replace(b"\x10\x00\x00\x00\x01", b"\x10\x7f\xff\xff\xff"), "no byte", id="2_147_483_647_entries"
        ),
        pytest.param(ONE.replace(b"\x10\x00\x00\x00\x01", b"\x10\xff\xff\xff\xff"), "damaged", id="minus_one_entry"),
        pytest.param(ONE.replace(b"\x3f\x40\x00\x00", b"\xbf\x40\x00\x00"), "damaged", id="negative_load_factor"),
        pytest.param(ONE.replace(b"\x3f\x40\x00\x00", b"\x7f\xc0\x00\x00"), "damaged", id="load_factor_not_a_number"),
        *(
            pytest.param(
                VALUE_NEXT + b"\x71\x00\x7e\x00" + bytes((handle,)) + b"\x78", "no earlier", id=f"refers_to_{what}"
            )
            for handle, what in enumerate(("the_class_of_the_map", "the_map", "the_class_of_arrays"))
        ),
        pytest.param(VALUE_NEXT + b"\x71\x00\x7e\x00\x04\x78", "no earlier", id="refers_to_what_is_not_there"),
        pytest.param(VALUE_NEXT + b"\x71\xff\xff\xff\xff\x78", "no earlier", id="refers_to_a_negative_handle"),
    ],
)
def test_a_damaged_file_is_refused_with_its_problem(damaged: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode(damaged)


@pytest.mark.parametrize("make", [Path.touch, lambda path: None], ids=["empty", "absent"])
def test_a_file_that_is_not_written_yet_has_no_offsets(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "connect.offsets")
    assert read_offset_file(tmp_path / "connect.offsets") == {}


def test_a_file_that_is_none_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    path.write_bytes(ONE[:-3])
    with pytest.raises(OffsetFileError) as caught:
        read_offset_file(path)
    said = str(caught.value)
    assert "\n" not in said
    assert str(path) in said
    assert f"cut off after {len(ONE) - 3} bytes" in said
    assert "offset.storage.file.filename" in said
    assert path.read_bytes() == ONE[:-3]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_what_is_no_regular_file_is_neither_read_nor_replaced(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "connect.offsets"
    make(path)
    with pytest.raises(OffsetFileError, match="can't be read: it is"):
        read_offset_file(path)
    with pytest.raises(OffsetFileError, match="can't be written: it is"):
        write_offset_file(path, {b"k": b"v"})
    assert not path.is_file()


def test_a_file_beyond_the_limit_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "connect.offsets"
    write_offset_file(path, {b"k": b"v" * 200})
    monkeypatch.setattr(offset_file, "MOST_BYTES", 200)
    with pytest.raises(OffsetFileError, match="more than"):
        read_offset_file(path)
    with pytest.raises(OffsetFileError, match="more than"):
        write_offset_file(path, {b"k": b"v" * 300})
    assert path.stat().st_size < 400


def test_the_null_device_has_no_offsets_and_stays_a_device(tmp_path: Path) -> None:
    link = tmp_path / "connect.offsets"
    link.symlink_to(os.devnull)
    write_offset_file(link, {b"k": b"v"})
    assert read_offset_file(link) == {}
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_file_that_is_replaced_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file, link = tmp_path / "data" / "offsets", tmp_path / "connect.offsets"
    file.touch()
    file.chmod(0o640)
    link.symlink_to(file)
    write_offset_file(link, {b"k": b"v"})
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert read_offset_file(file) == {b"k": b"v"}
    assert [each.name for each in file.parent.iterdir()] == ["offsets"]


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_offset_file(tmp_path / "connect.offsets", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "connect.offsets").stat().st_mode) == 0o640


@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_a_write_that_fails_leaves_the_former_offsets_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "connect.offsets"
    write_offset_file(path, {b"k": b"before"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        with pytest.raises(OffsetFileError, match="No space left on device") as caught:
            write_offset_file(path, {b"k": b"after"})
    assert str(path) in str(caught.value)
    assert read_offset_file(path) == {b"k": b"before"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_on_the_disk_before_it_takes_the_formers_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    for name in ("fsync", "rename"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, name=name, real=real: (steps.append(name), real(*given))[1])
    write_offset_file(tmp_path / "connect.offsets", {b"k": b"v"})
    assert steps == ["fsync", "rename", "fsync"]


@pytest.mark.parametrize("call", ["fchown", "fchmod"])
def test_a_file_system_without_owners_and_modes_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    write_offset_file(tmp_path / "connect.offsets", {})

    def unknown(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, call, unknown)
    write_offset_file(tmp_path / "connect.offsets", {b"k": b"v"})
    assert read_offset_file(tmp_path / "connect.offsets") == {b"k": b"v"}


def test_a_directory_that_can_not_be_synced_is_no_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def of_files_alone(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", of_files_alone)
    write_offset_file(tmp_path / "connect.offsets", {b"k": b"v"})
    assert read_offset_file(tmp_path / "connect.offsets") == {b"k": b"v"}


def test_a_directory_that_is_not_there_is_an_error_of_the_write(tmp_path: Path) -> None:
    path = tmp_path / "none" / "connect.offsets"
    assert read_offset_file(path) == {}
    with pytest.raises(OffsetFileError, match=f"{path} can't be written: No such file or directory"):
        write_offset_file(path, {})
