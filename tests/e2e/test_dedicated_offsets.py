"""A flow's source offsets are set as docs/dedicated.md says: by a worker of Connect that stands in for the nodes."""

from __future__ import annotations

import contextlib

import pytest

from deploy.local import LocalCluster
from tests.e2e.dedicated import SOURCE, Dedicated, mm2_properties
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

ALIAS, TOPIC = "reset", "dedicated-reset"


def test_a_flow_copies_again_after_a_worker_with_its_group_has_reset_its_offsets(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source_cluster.create_topic(TOPIC, 1)
    produce(source_cluster, TOPIC, ({"value": b"%d" % number, "partition": 0} for number in range(10)))
    # Both clusters are shared with other tests: topics of heartbeats would be found there.
    more = {"topics": TOPIC, "groups": "", "emit.heartbeats.enabled": "false"}
    properties = mm2_properties({ALIAS: source_cluster, "B": target_cluster}, [f"{ALIAS}->B"], more)
    copy = f"{ALIAS}.{TOPIC}"
    with contextlib.closing(Dedicated(target_cluster, properties, name=TOPIC)) as node:
        node.start()
        wait_ends(target_cluster, copy, {0: 10})
        assert node.stop() == 0
        storage = {f"{each}.storage.topic": f"mm2-{each}s.{ALIAS}.internal" for each in ("config", "offset")}
        storage["status.storage.topic"] = f"mm2-status.{ALIAS}.internal"
        with Product(target_cluster, group=f"{ALIAS}-mm2", properties=storage) as worker:
            wait_for_state(
                lambda: SOURCE in worker.call("GET", "/connectors"), "the worker knows the flow's connectors"
            )
            worker.call("PUT", f"/connectors/{SOURCE}/stop")
            wait_for_state(lambda: not worker.call("GET", f"/connectors/{SOURCE}/tasks"), "the flow is stopped")
            worker.call("DELETE", f"/connectors/{SOURCE}/offsets")
            worker.call("PUT", f"/connectors/{SOURCE}/resume")
            wait_ends(target_cluster, copy, {0: 20})
            assert worker.stop() == 0
        produce(source_cluster, TOPIC, ({"value": b"more", "partition": 0} for _ in range(5)))
        node.start()
        wait_ends(target_cluster, copy, {0: 25})
        assert node.stop() == 0
