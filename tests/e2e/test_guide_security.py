"""docs/guide/security.md, followed: two clusters with TLS, SCRAM and an authorizer, and a topic that is copied."""

from __future__ import annotations

import contextlib
import json
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from deploy.local import Listener, LocalCluster, free_port
from tests.brokers import started
from tests.e2e import guide_acls
from tests.e2e.guide_pages import Follower, read_page
from tests.e2e.product import PATIENCE_S
from tests.e2e.users_shell import Shell
from tests.waiting import wait_for, wait_for_state


def cluster(name: str, *users: str) -> LocalCluster:
    lines = read_page("security").files["secrets.properties"].split()
    passwords = dict(line.split("=") for line in lines)
    return LocalCluster(
        name,
        listeners=[Listener.SASL_SSL],
        users={user: passwords[user] for user in users},
        mechanisms=["SCRAM-SHA-512"],
        authorizer=True,
    )


def end(cluster: LocalCluster, topic: str) -> int:
    """The end offset of partition 0, by the administrator; 0 if there is none."""
    with contextlib.suppress(KafkaException):
        asked = cluster.admin().list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
        return int(next(iter(asked.values())).result(180).offset)
    return 0


# A pair of brokers and a worker of its own.
@pytest.mark.long
@pytest.mark.brokers
@pytest.mark.spark
def test_a_link_with_tls_logins_and_these_acls_copies(tmp_path: Path) -> None:
    a, b = cluster("secure-a", "source"), cluster("secure-b", "worker", "writer", "target")
    with ExitStack() as stack:
        stack.enter_context(started(a, b))
        places = {
            guide_acls.SOURCE: a.bootstrap_servers,
            guide_acls.TARGET: b.bootstrap_servers,
            "/etc/mirror-connect": str(tmp_path),
            ":8443": f":{free_port()}",
        }
        shell = stack.enter_context(Shell(tmp_path, places))
        page = Follower("security", shell)
        assert a.tls is not None
        assert b.tls is not None
        for file, name in (
            (a.tls.authority_pem, "a-ca.pem"),
            (b.tls.authority_pem, "b-ca.pem"),
            (b.tls.authority_pem, "rest-ca.pem"),
            (b.tls.server.pem, "rest.pem"),
        ):
            shutil.copy(file, tmp_path / name)
        guide_acls.grant_all(a, b)
        page.done(guide_acls.BEGINS)
        a.create_topic("orders")
        producer = Producer(a.internal_librdkafka())
        for number in range(10):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(60) == 0
        worker = page.start("KAFKA_OPTS")
        address = shell.here("https://localhost:8443/connectors")
        ready = f"curl -s --cacert rest-ca.pem --netrc-file rest-login {address} || true"

        def answers() -> bool:
            worker.check_alive()
            return shell.run(ready).strip() == "[]"

        wait_for_state(answers, "the worker answers with the login", PATIENCE_S)
        refused = shell.run(f"curl -s -o answer -w '%{{http_code}}' --cacert rest-ca.pem {address}")
        assert refused == "401"
        page.run("curl --cacert")
        wait_for(lambda: end(b, "A.orders") == 10, "ten records are on B", PATIENCE_S)
        assert json.loads(page.run("curl -s"))["connector"]["state"] == "RUNNING"
        page.close()
        assert worker.terminate() == 0
