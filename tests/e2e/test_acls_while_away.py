"""An ACL revoked at the source while nothing runs goes at the worker's return, though a Java worker ran in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from deploy.local import Listener, LocalCluster
from deploy.local.connect import ConnectWorker
from mirror_connect.connectors.acls import AclBinding
from mirror_connect.connectors.records.copied_acls import MEMBER
from mirror_connect.kafka_io.admin.acl_admin import create_acls, delete_acls, topic_acls
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from tests.brokers import started
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.waiting import wait_for

# tests/unit/app/worker_connectors has the same without brokers. Workers, ours and Java's, start four times here.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.mm2, pytest.mark.long]

GROUP: Final = "away"
TOPIC: Final = "guarded"
PATIENCE_S: Final = 360.0
READ: Final = AclBinding("TOPIC", "LITERAL", TOPIC, "User:reader", "*", "READ", "ALLOW")
KEPT: Final = replace(READ, principal="User:kept")
COPY, KEPT_COPY = (replace(each, name=f"A.{TOPIC}") for each in (READ, KEPT))
BY_HAND: Final = replace(COPY, principal="User:by-hand")
Offsets = list[dict[str, dict[str, Any]]]


@dataclass
class Seen:
    """What was there at each step."""

    copied: set[AclBinding] = field(default_factory=set)
    ours: Offsets = field(default_factory=list)
    java: Offsets = field(default_factory=list)
    java_log: str = ""
    at_return: set[AclBinding] = field(default_factory=set)
    after_reset: Offsets = field(default_factory=list)


def guarded(name: str) -> LocalCluster:
    return LocalCluster(
        name, listeners=[Listener.SASL_PLAINTEXT], users={"admin": "secret"}, authorizer=True, super_users=["admin"]
    )


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    found = Seen()
    with ExitStack() as stack:
        source, target = stack.enter_context(started(guarded("guarded-source"), guarded("guarded-target")))
        at_source, at_target = (ClusterAdmin(each.client_properties(), "cluster") for each in (source, target))

        def bindings(of_remote: Callable[[AclBinding], bool] = lambda each: each.name == COPY.name) -> set[AclBinding]:
            return {each for each in topic_acls(at_target) or () if of_remote(each)}

        source.create_topic(TOPIC, 1)
        produce(source, TOPIC, [{"value": b"1", "partition": 0}])
        assert create_acls(at_source, [READ, KEPT]) == {}
        config = mirror_config(
            source,
            target,
            TOPIC,
            sync_topic_acls_enabled="true",
            sync_topic_acls_interval_seconds="1",
            sync_topic_acls_remove_enabled="true",
        )
        java = ConnectWorker(target, {"offset.flush.interval.ms": "1000"}, group=GROUP, heap="512m")
        stack.callback(java.close)
        ours = Product(target, group=GROUP)
        stack.callback(ours.close)

        ours.start()
        ours.put(GROUP, config)
        ours.wait_running(GROUP)
        wait_ends(target, f"A.{TOPIC}", {0: 1}, PATIENCE_S)
        wait_for(lambda: bindings() >= {COPY, KEPT_COPY}, "the ACLs are copied", PATIENCE_S)
        assert create_acls(at_target, [BY_HAND]) == {}
        # Brokers tell of it a moment later.
        wait_for(lambda: BY_HAND in bindings(), "the ACL made by hand is there", PATIENCE_S)
        found.copied = bindings()

        def committed() -> Offsets:
            found.ours = ours.call("GET", f"/connectors/{GROUP}/offsets")["offsets"]
            return found.ours

        wait_for(committed, "the position is committed", PATIENCE_S)
        ours.stop()

        java.start()
        java.wait_running(GROUP)
        found.java = java.request("GET", f"/connectors/{GROUP}/offsets")[1]["offsets"]
        java.stop()
        found.java_log = java.log.read_text()

        assert delete_acls(at_source, [READ]) == {}
        ours.start()
        wait_for(lambda: COPY not in bindings(), "the ACL is gone", PATIENCE_S)
        found.at_return = bindings()

        assert ours.rest.put(f"/connectors/{GROUP}/stop").status_code == 204
        ours.wait_states(GROUP, ["STOPPED"], PATIENCE_S)
        assert ours.rest.delete(f"/connectors/{GROUP}/offsets").status_code == 200
        ours.stop()
        java.start()
        found.after_reset = java.request("GET", f"/connectors/{GROUP}/offsets")[1]["offsets"]
        yield found


def test_what_was_revoked_while_nothing_ran_goes_and_what_others_made_stays(seen: Seen) -> None:
    assert (seen.copied, seen.at_return) == ({COPY, KEPT_COPY, BY_HAND}, {KEPT_COPY, BY_HAND})


def test_what_is_remembered_is_no_offset_of_ours_and_one_of_javas(seen: Seen) -> None:
    noted = [each for each in seen.java if MEMBER in each["partition"]]
    assert [each["partition"] for each in noted] == [{MEMBER: f"LITERAL A.{TOPIC}"}]
    assert [each for each in seen.java if each not in noted] == seen.ours != []


@pytest.mark.parametrize("words", ["Ignoring offset partition key", "CRITICAL", "DataException"])
def test_java_reads_over_it_without_a_word(seen: Seen, words: str) -> None:
    assert words not in seen.java_log


def test_a_reset_of_offsets_forgets_it_too(seen: Seen) -> None:
    assert seen.after_reset == []
