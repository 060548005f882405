"""Each member knows what the others do about exactly-once copying; a member that does not say it is no error."""

from __future__ import annotations

import json

from mirror_connect.app.group.assignor import Share
from mirror_connect.app.group.decisions import Joined, decide
from mirror_connect.app.group.messages import (
    GroupState,
    Metadata,
    assignment_from_bytes,
    assignments_to_bytes,
    metadata_from_bytes,
    metadata_to_bytes,
)
from mirror_connect.app.herder.interfaces import WantedWork


def test_what_a_member_says_is_told_to_all() -> None:
    said = [Metadata("http://a/", "a", exactly_once="enabled"), Metadata("http://b/", "b", exactly_once="preparing")]
    members = {each.worker_id: metadata_from_bytes(metadata_to_bytes(each, 0.0), 0.0) for each in said}
    decided = decide(Joined(1, "a", members), WantedWork({"c": 2}, 5), GroupState(), now=0.0, delay_s=0.0)
    for told in assignments_to_bytes(decided, 0.0).values():
        workers = assignment_from_bytes(told, 0.0).state.workers
        assert {each.worker_id: each.shown().exactly_once for each in workers} == {"a": "enabled", "b": "preparing"}


def test_a_member_of_a_release_that_does_not_say_it_is_understood() -> None:
    said = json.loads(metadata_to_bytes(Metadata("http://a/", "a", claims=Share(frozenset({"c"}))), 0.0))
    del said["exactly_once"]
    read = metadata_from_bytes(json.dumps(said).encode(), 0.0)
    assert (read.claims.connectors, read.exactly_once) == ({"c"}, "")
