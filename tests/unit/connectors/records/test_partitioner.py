import pytest

from mirror_connect.connectors.records.partitioner import murmur2, partition_for


# The vectors of Kafka's own UtilsTest.testMurmur2.
@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


def test_the_only_partition_takes_every_key() -> None:
    assert {partition_for(str(number).encode(), 1) for number in range(100)} == {0}
