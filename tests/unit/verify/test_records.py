import pytest

from mirror_connect.verify.records import Content, alike, difference, fields, size

KEYED: Content = (b"k", b"value", ())
# Key `k`, value `value`, no headers, as a batch has them.
PACKED: Content = b"\x02k\x0avalue\x00"


def test_both_forms_of_a_record_have_the_same_fields() -> None:
    assert fields(PACKED) == fields(KEYED) == {"key": b"k", "value": b"value", "headers": b"\x00"}


def test_headers_are_as_a_record_has_them() -> None:
    assert fields((None, None, (("a", b"xy"), ("b", None))))["headers"] == b"\x04\x02a\x04xy\x02b\x01"


@pytest.mark.parametrize(
    "content", [b"", b"\x02", b"\x50k", b"\xff" * 12], ids=["empty", "cut", "too_short", "endless"]
)
def test_what_cannot_be_taken_apart_is_all_value(content: bytes) -> None:
    assert fields(content) == {"value": content}


def test_a_record_without_anything_takes_room_too() -> None:
    assert (size((None, None, ())) > 0, size(PACKED)) == (True, len(b"\x02k\x0avalue\x00"))


@pytest.mark.parametrize(
    ("other", "same_key", "judged"),
    [
        pytest.param((0, 5, (b"k", b"other", ())), False, True, id="another_value"),
        pytest.param((0, 6, (b"k", b"value", ())), False, True, id="another_time"),
        pytest.param((0, 6, (b"x", b"other", ())), False, False, id="all_but_headers"),
        pytest.param((0, 5, (b"x", b"value", ())), True, False, id="another_key_where_that_counts"),
    ],
)
def test_a_changed_record_is_one_of_which_most_is_equal(
    other: tuple[int, int, Content], same_key: bool, judged: bool
) -> None:
    assert alike((0, 5, KEYED), other, same_key=same_key) is judged


@pytest.mark.parametrize(
    ("other", "told"),
    [
        pytest.param((b"k", b"vALue", ()), "value differs in 2 of 5 bytes, the first is byte 1", id="bytes"),
        pytest.param((b"k", b"val", ()), "value of 3 bytes instead of 5, different from byte 3 on", id="shorter"),
        pytest.param((None, b"value", ()), "key null instead of 1 bytes", id="null"),
        pytest.param((b"k", b"value", ()), "its encoding differs", id="nothing_to_see"),
    ],
)
def test_a_difference_names_places_and_no_contents(other: Content, told: str) -> None:
    assert difference((0, 5, KEYED), (0, 5, other), timestamps=True) == told


def test_a_timestamp_differs_only_where_it_is_compared() -> None:
    one, other = (0, 5, KEYED), (0, 6, KEYED)
    assert (difference(one, other, timestamps=True), difference(one, other, timestamps=False)) == (
        "timestamp 6 instead of 5",
        "its encoding differs",
    )
