"""The requests about groups of others as bytes: aiokafka's structs, written-out bytes for newer versions."""

from __future__ import annotations

from collections.abc import Iterator

from aiokafka.protocol.admin import (
    DescribeGroupsRequest_v2,
    DescribeGroupsResponse_v2,
    ListGroupsRequest_v2,
    ListGroupsResponse_v2,
)
from aiokafka.protocol.commit import (
    OffsetCommitRequest_v3,
    OffsetCommitResponse_v3,
    OffsetFetchRequest_v3,
    OffsetFetchResponse_v3,
)

from mirror_connect.connectors.partitions import CommittedOffset, TopicPartition
from mirror_connect.kafka_io.protocol.groups import (
    DescribeGroups,
    DescribeGroupsResponse,
    FetchedOffset,
    GroupEntry,
    ListGroups,
    ListGroupsResponse,
    MemberEntry,
    OffsetCommit,
    OffsetCommitResponse,
    OffsetFetch,
    OffsetFetchResponse,
)
from tests.fakes.request_bytes import decoded, encoded

COMMIT = OffsetCommit("g", {("a", 1): (5, "x"), ("b", 0): (7, ""), ("a", 0): (3, "")})


def test_a_commit_is_written_as_aiokafka_writes_it() -> None:
    topics = [("a", [(0, 3, ""), (1, 5, "x")]), ("b", [(0, 7, "")])]
    assert encoded(COMMIT, 3) == OffsetCommitRequest_v3("g", -1, "", -1, topics).encode()


def test_a_members_commit_names_its_generation() -> None:
    commit = OffsetCommit("g", {("b", 0): (7, "")}, 9, "me")
    assert encoded(commit, 3) == OffsetCommitRequest_v3("g", 9, "me", -1, [("b", [(0, 7, "")])]).encode()


def test_a_commit_of_version_8_has_the_form_of_the_protocol_guide() -> None:
    written = bytes.fromhex(
        "0267 ffffffff 01 00 03"  # group, generation, no member, no instance, two topics
        "0261 03 00000000 0000000000000003 ffffffff 01 00 00000001 0000000000000005 ffffffff 0278 00 00"
        "0262 02 00000000 0000000000000007 ffffffff 01 00 00 00"
    )
    assert encoded(COMMIT, 8) == written


def test_a_commits_answer_names_the_code_of_each_partition() -> None:
    body = OffsetCommitResponse_v3(4, [("a", [(0, 0), (1, 25)])]).encode()
    assert decoded(COMMIT, 3, body) == OffsetCommitResponse(4, {("a", 0): 0, ("a", 1): 25})


def test_a_fetch_of_offsets_is_written_as_aiokafka_writes_it() -> None:
    assert encoded(OffsetFetch("g"), 3) == OffsetFetchRequest_v3("g", None).encode()


def test_a_fetch_of_offsets_of_version_7_asks_for_all_topics_and_for_what_is_committed() -> None:
    assert encoded(OffsetFetch("g"), 7) == bytes.fromhex("0267 00 00 00")


def test_offsets_are_read_with_their_metadata() -> None:
    body = OffsetFetchResponse_v3(4, [("a", [(0, 3, "note", 0), (1, -1, None, 0)])], 0).encode()
    offsets = [FetchedOffset("a", 0, 3, "note", 0), FetchedOffset("a", 1, -1, "", 0)]
    assert decoded(OffsetFetch("g"), 3, body) == OffsetFetchResponse(4, 0, offsets)


def test_metadata_that_are_no_text_do_not_keep_offsets_from_being_read() -> None:
    body = bytes.fromhex("00000000 02 0261 02 00000000 0000000000000003 ffffffff 03fff1 0000 00 00 0000 00")
    assert decoded(OffsetFetch("g"), 7, body).offsets == [FetchedOffset("a", 0, 3, "\ufffd\ufffd", 0)]


def test_groups_are_listed_as_aiokafka_lists_them() -> None:
    body = ListGroupsResponse_v2(4, 0, [("g", "consumer"), ("s", "")]).encode()
    listed = ListGroupsResponse(4, 0, [GroupEntry("g", "consumer", "", ""), GroupEntry("s", "", "", "")])
    assert (encoded(ListGroups(), 2), decoded(ListGroups(), 2, body)) == (ListGroupsRequest_v2().encode(), listed)


def test_groups_of_version_5_have_a_state_and_a_type() -> None:
    body = bytes.fromhex("00000000 0000 02 0267 09") + b"consumer\x07Stable\x08Classic\0\0"
    listed = ListGroupsResponse(0, 0, [GroupEntry("g", "consumer", "Stable", "Classic")])
    assert (encoded(ListGroups(), 5), decoded(ListGroups(), 5, body)) == (bytes.fromhex("01 01 00"), listed)


def test_a_commit_of_many_topics_looks_at_each_of_them_once() -> None:
    class Counted(dict[TopicPartition, CommittedOffset]):
        looks = 0

        def __iter__(self) -> Iterator[TopicPartition]:
            self.looks += 1
            return super().__iter__()

    offsets = Counted({TopicPartition(f"t{number}", 0): CommittedOffset(number) for number in range(100)})
    encoded(OffsetCommit("g", offsets), 3)
    assert offsets.looks == 1


def test_a_group_is_described_as_aiokafka_describes_it() -> None:
    request = DescribeGroups("g")
    assert encoded(request, 2) == DescribeGroupsRequest_v2(["g"]).encode()
    members = [("m-1", "client", "/10.0.0.1", b"meta", b"work"), ("m-2", "client", "/10.0.0.2", b"", b"")]
    body = DescribeGroupsResponse_v2(5, [(0, "g", "Stable", "connect", "sessioned", members)]).encode()
    assert decoded(request, 2, body) == DescribeGroupsResponse(
        0, "Stable", "sessioned", [MemberEntry("/10.0.0.1", b"meta", b"work"), MemberEntry("/10.0.0.2", b"", b"")]
    )


def test_a_description_of_version_5_has_the_form_of_the_protocol_guide() -> None:
    assert encoded(DescribeGroups("g"), 5) == bytes.fromhex("02 0267 00 00")
    body = bytes.fromhex(
        "00000000 02"  # not throttled, one group
        "0000 0267 07537461626c65 08636f6e6e656374 0a73657373696f6e6564"  # Stable, connect, sessioned
        "02 026d 00 0263 032f68 0261 03 6262 00"  # one member without an instance
        "80000000 00 00"
    )
    # The metadata is `a`, the assignment `bb`.
    assert decoded(DescribeGroups("g"), 5, body) == DescribeGroupsResponse(
        0, "Stable", "sessioned", [MemberEntry("/h", b"a", b"bb")]
    )
