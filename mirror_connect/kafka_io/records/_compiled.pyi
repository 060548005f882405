"""What _compiled.c offers. None: the bytes are not as expected, and the Python code is to read them."""

from collections.abc import Sequence

# Whether `merge_plain` can check CRCs: not every processor computes them.
CHECKS_CRCS: bool

def repack(
    data: bytes,
    at: int,
    end: int,
    count: int,
    base_timestamp: int,
    timestamp: int | None,
    base_offset: int,
    previous: int,
    last_offset: int,
    from_offset: int,
    dense: bool,
    most_records: int,
    most_bytes: float,
    /,
) -> tuple[bytes, int, int, int, int, int, tuple[tuple[int, int], ...], int] | None: ...
def recompress(parts: Sequence[tuple[bytes, bytes]], new: bytes, /) -> bytes | None: ...
def merge(parts: list[tuple[bytes, int, int]], /) -> bytes | None: ...
def take(
    buffer: bytes | bytearray | memoryview, at: int, wanted: int, check_crcs: bool, append_time: bool, /
) -> tuple[int, tuple[bytes, int, int, int, int, int, int], int, int] | None: ...
def header(
    size: int,
    crc: int,
    attributes: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    /,
) -> bytes: ...
def common_delta(data: bytes, count: int, /) -> int | None: ...
def unpack(
    data: bytes,
    count: int,
    base_timestamp: int,
    timestamp: int | None,
    base_offset: int,
    last_offset: int,
    from_offset: int,
    /,
) -> list[tuple[int, int, bytes]] | None: ...
def transform(
    data: bytes, count: int, steps: tuple[tuple[int, int, bool, bytes, tuple[bytes, ...], bytes], ...], /
) -> tuple[bytes, int] | None: ...

_Bytes = tuple[bytes | None, bytes, bytes]
_Given = tuple[bytes | memoryview | None, bytes | memoryview, bytes | memoryview, int] | None

def columns(
    data: bytes, count: int, base_timestamp: int, wants: int, /
) -> tuple[bytes | None, _Bytes | None, _Bytes | None, tuple[bytes, _Bytes, _Bytes] | None] | None: ...
def with_columns(
    data: bytes,
    count: int,
    base_timestamp: int,
    keep: _Given,
    timestamps: _Given,
    keys: _Given,
    values: _Given,
    lists: _Given,
    names: _Given,
    contents: _Given,
    /,
) -> tuple[bytes, int, int, int, tuple[tuple[int, int], ...]] | None: ...
def trailing_tokens(offsets: bytes | memoryview, data: bytes | memoryview, count: int, /) -> tuple[int, ...]: ...
def merge_plain(
    buffer: bytes | bytearray | memoryview,
    at: int,
    limit: int,
    wanted: int,
    most_records: int,
    largest: int,
    check_crcs: bool,
    append_time: bool = False,
    /,
) -> tuple[bytes, int, int, int, int, int, tuple[tuple[int, int], ...]] | None: ...
