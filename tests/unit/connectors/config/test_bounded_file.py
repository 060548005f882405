"""Files that configs name: which are read, and the one text for those that aren't."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import nullcontext as _nothing
from pathlib import Path

import pytest

from mirror_connect.connectors.config import bounded_file
from mirror_connect.connectors.config.bounded_file import MOST_BYTES, UNREADABLE, CantRead, OutsideError, read_file

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def nothing_said_yet() -> None:
    bounded_file._log.cache_clear()


def test_a_file_of_the_largest_size_is_read_whole(tmp_path: Path) -> None:
    content = os.urandom(MOST_BYTES)
    (tmp_path / "f").write_bytes(content)
    assert read_file(tmp_path / "f") == content


def absent(folder: Path) -> str:
    return str(folder / "none")


def pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe")
    return str(folder / "pipe")


def link_to_a_pipe(folder: Path) -> str:
    os.symlink(pipe(folder), folder / "link")
    return str(folder / "link")


def listening(folder: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "s"))
    return str(folder / "s")


def too_large(folder: Path) -> str:
    (folder / "large").write_bytes(bytes(MOST_BYTES + 1))
    return str(folder / "large")


def endless(folder: Path) -> str:
    with (folder / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    return str(folder / "sparse")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(absent, "there is no such file", id="absent"),
        pytest.param(str, "it is a directory", id="directory"),
        pytest.param(pipe, "it is no regular file", id="pipe"),
        pytest.param(link_to_a_pipe, "it is no regular file", id="link_to_a_pipe"),
        pytest.param(listening, "it is no regular file", id="socket"),
        pytest.param(lambda _: "/dev/zero", "it is no regular file", id="dev_zero"),
        pytest.param(lambda _: "/proc/self/environ", "it is the kernel's", id="environment_of_the_process"),
        pytest.param(lambda _: "/sys/kernel/uevent_seqnum", "it is the kernel's", id="file_of_the_kernel"),
        pytest.param(too_large, "it has more than 1 MiB", id="too_large"),
        pytest.param(endless, "it has more than 1 MiB", id="a_terabyte"),
        pytest.param(lambda folder: f"{folder}/a\0b", "ValueError", id="nul"),
        pytest.param(lambda folder: f"{folder}/\ud800", "UnicodeEncodeError", id="no_text"),
    ],
)
def test_what_is_not_read_has_one_text_and_the_log_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make: Callable[[Path], str], reason: str
) -> None:
    path = make(tmp_path)
    if path.startswith("/sys") and not Path(path).exists():
        pytest.skip("this system has no /sys")
    with caplog.at_level(logging.WARNING), pytest.raises(CantRead, match=f"^{UNREADABLE}$"):
        read_file(path)
    assert [message.partition(" can't be read: ")[2][: len(reason)] for message in caplog.messages] == [reason]


def test_a_pipe_that_is_open_here_is_not_read_through_proc() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(CantRead):
            read_file(f"/proc/self/fd/{reading}")
    finally:
        os.close(reading)
        os.close(writing)


def test_a_file_that_has_no_name_any_more_is_not_read_through_proc(tmp_path: Path) -> None:
    # As the private key that TLS is given in memory.
    with (tmp_path / "f").open("w+") as file:
        file.write("key")
        file.flush()
        os.unlink(file.name)
        with pytest.raises(CantRead):
            read_file(f"/proc/self/fd/{file.fileno()}")


def test_the_same_reason_is_logged_once_a_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with pytest.raises(CantRead):
            read_file(tmp_path / "none")
    assert len(caplog.messages) in (1, 2)  # 2 if a minute began


def test_descriptors_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Told by what is opened and closed here: the process has other descriptors, which other threads close at any time.
    opened: list[int] = []
    really_open, really_close = os.open, os.close

    def counted_open(*arguments: object) -> int:
        opened.append(really_open(*arguments))  # type: ignore[arg-type]
        return opened[-1]

    def counted_close(descriptor: int) -> None:
        opened.remove(descriptor)
        really_close(descriptor)

    (tmp_path / "f").write_text("x")
    monkeypatch.setattr(os, "open", counted_open)
    monkeypatch.setattr(os, "close", counted_close)
    for path in ("f", "none", ".", "f"):
        for within in (None, [str(tmp_path / "elsewhere")]):
            with pytest.raises((CantRead, OutsideError)) if path != "f" or within else _nothing():
                read_file(tmp_path / path, within)
    monkeypatch.undo()
    assert opened == []


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """`allowed/f`, `secret`, `deep/secret`; links in `allowed` to `deep`, to `secret`, to `f`; `to_allowed` to `allowed`."""
    for folder in ("allowed", "deep", "allowed-too"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text(folder)
    (tmp_path / "secret").write_text("secret")
    for link, target in (("deep", "deep"), ("secret", "secret"), ("own", "allowed/f")):
        os.symlink(tmp_path / target, tmp_path / "allowed" / link)
    os.symlink(tmp_path / "allowed", tmp_path / "to_allowed")
    return tmp_path


@pytest.mark.parametrize("path", ["allowed/f", "allowed/own", "to_allowed/f", "allowed/../allowed/f"])
@pytest.mark.parametrize("within", ["allowed", "to_allowed", "allowed/f", "."])
def test_a_file_that_lies_where_it_may_is_read(places: Path, path: str, within: str) -> None:
    assert read_file(f"{places}/{path}", [str(places / within)]) == b"allowed"


@pytest.mark.parametrize(
    "path", ["allowed/secret", "allowed/deep/f", "allowed/deep/../secret", "secret", "allowed-too/f"]
)
def test_a_file_that_lies_elsewhere_is_not_read_whatever_the_path_says(places: Path, path: str) -> None:
    with pytest.raises(OutsideError):
        read_file(f"{places}/{path}", [str(places / "allowed")])


def test_a_link_that_changes_between_looking_and_opening_leads_nowhere(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = places / "allowed" / "changing"
    os.symlink(places / "secret", link)
    really_open = os.open

    def swapped(*arguments: object) -> int:
        descriptor = really_open(*arguments)  # type: ignore[arg-type]
        link.unlink()
        os.symlink(places / "allowed" / "f", link)
        return descriptor

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(OutsideError):
        read_file(link, [str(places / "allowed")])


def test_a_path_that_changes_again_before_it_is_resolved_leads_nowhere(
    places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, inside = places / "allowed" / "changing", places / "allowed" / "inside"
    inside.write_text("allowed")
    os.symlink(inside, link)
    really_open, really_resolve = os.open, os.path.realpath
    is_open = False

    def lead(path: Path, target: Path) -> None:
        path.unlink()
        os.symlink(target, path)

    def opened(*arguments: object) -> int:
        nonlocal is_open
        lead(link, places / "secret")
        descriptor = really_open(*arguments)  # type: ignore[arg-type]
        lead(link, inside)
        is_open = True
        return descriptor

    def resolved(path: str | Path) -> str:
        found = really_resolve(path)
        if is_open and found == str(inside):
            # Whoever compares what is there now with the open file finds the same one.
            lead(inside, places / "secret")
        return found

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os.path, "realpath", resolved)
    with pytest.raises(OutsideError):
        read_file(link, [str(places / "allowed")])
