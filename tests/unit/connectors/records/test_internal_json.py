import pytest

from mirror_connect.connectors.records.internal_json import decode, encode, is_integer


def test_the_bytes_are_those_of_jackson() -> None:
    # Recorded from Jackson 2.21: upper-case hexadecimal, DEL, slash and everything beyond ASCII raw.
    text = 'a\x1f\x7f\x00/\u2028é\b"\\😀<'
    assert encode(text) == '"a\\u001F\x7f\\u0000/\u2028é\\b\\"\\\\😀<"'.encode()


def test_objects_keep_their_order_and_hold_no_white_space() -> None:
    assert encode({"b": 1, "a": [None, True, 1.5, 1e10]}) == b'{"b":1,"a":[null,true,1.5,1.0E10]}'


@pytest.mark.parametrize("value", [9223372036854775807, -1, 0])
def test_integers_come_back_as_they_went(value: int) -> None:
    assert decode(encode([value])) == [value]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"NaN", b"[-Infinity]", b'{"offset":1e999}', b"\xff", b'{"a":"\\ud800"}', b'{"\\uD83D\\ud83d":1}'],
)
def test_what_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json, Unicode and own errors alike
        decode(data)


def test_both_halves_of_a_surrogate_pair_are_a_character() -> None:
    assert decode(b'{"a":"\\ud83d\\uDE00"}') == {"a": "\U0001f600"}


@pytest.mark.parametrize("value", [b"x", {1: 2}, object()])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        encode(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_json_does_not_have_is_not_written(value: float) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        encode({"offset": value})


def test_a_boolean_is_no_integer() -> None:
    assert not is_integer(True)
