"""Queries of a cluster with TLS, logins and ACLs: who may read a topic, and what others are told."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from deploy.local import Listener, LocalCluster
from mirror_connect.query.bounds import Bounds
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import QueryLink
from mirror_connect.query.link_options import link_of_files
from mirror_connect.query.link_rows import rows_of
from mirror_connect.query.record_scan import Scan, planned, read_slice
from mirror_connect.query.tables import CHECKPOINTS
from tests.e2e.identity_topics import produce
from tests.integration.rights import allow

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

USERS = {name: f"{name}-SECRET-7" for name in ("admin", "reader")}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema([("offset", pa.int64()), ("value", pa.binary()), ("headers", HEADERS)])
# Of a slow machine, on which three files run.
RUN_S = 500.0


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    with LocalCluster(
        "guarded", listeners=[Listener.SASL_SSL], users=USERS, authorizer=True, super_users=["admin"]
    ) as made:
        yield made


def written(cluster: LocalCluster, topic: str, *operations: AclOperation) -> str:
    """A topic with two records. `operations`: what the reader may do."""
    cluster.create_topic(topic)
    produce(cluster, topic, [{"value": b"one"}, {"value": b"two"}])
    if operations:
        allow(cluster, "User:reader", ResourceType.TOPIC, topic, *operations)
    return topic


def link_of(cluster: LocalCluster, user: str, **changed: str) -> QueryLink:
    properties = {**cluster.client_properties(user), **{name.replace("_", "."): each for name, each in changed.items()}}
    return link_of_files({"source": properties, "target": properties}, "A")


def values(link: QueryLink, topic: str) -> list[bytes]:
    scan = Scan("source", (topic,), Bounds())
    batches = [batch for part in asyncio.run(planned(link, scan)) for batch in read_slice(link, scan, part, SCHEMA)]
    return [each for batch in batches for each in batch["value"].to_pylist()]


def test_a_user_reads_what_he_may_read(guarded: LocalCluster, topic_name: Callable[[str], str]) -> None:
    topic = written(guarded, topic_name("query-open"), AclOperation.READ)
    assert values(link_of(guarded, "reader"), topic) == [b"one", b"two"]


def test_a_missing_right_is_named_with_what_to_grant(guarded: LocalCluster, topic_name: Callable[[str], str]) -> None:
    hidden = written(guarded, topic_name("query-hidden"))
    shown = written(guarded, topic_name("query-shown"), AclOperation.DESCRIBE)
    reader = link_of(guarded, "reader")
    with pytest.raises(QueryError) as refused:
        values(reader, hidden)
    advice = f"grant DESCRIBE and READ on topic {hidden} to the source user"
    assert str(refused.value) == f"topic {hidden} of the source cluster can't be read: {advice}"
    with pytest.raises(QueryError) as refused:
        values(reader, shown)
    advice = f"grant READ on topic {shown} to the source user"
    assert str(refused.value) == f"partition {shown}-0 of the source cluster can't be read: {advice}"
    checkpoints = written(guarded, "A.checkpoints.internal")
    with pytest.raises(QueryError, match=f"^topic {checkpoints} of the target cluster can't be read: "):
        list(rows_of(reader, CHECKPOINTS, None))


def test_a_wrong_password_is_one_line_without_it(guarded: LocalCluster) -> None:
    wrong = guarded.client_properties("reader")["sasl.jaas.config"].replace(USERS["reader"], "WRONG-SECRET-7")
    with pytest.raises(QueryError) as refused:
        values(link_of(guarded, "reader", sasl_jaas_config=wrong), "any")
    assert str(refused.value).startswith("the source cluster: ")
    assert "SECRET" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_command_reads_over_tls_with_a_login(
    guarded: LocalCluster, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = written(guarded, topic_name("query-command"), AclOperation.READ)
    hidden = written(guarded, topic_name("query-command-hidden"))
    path = guarded.write_client_properties("reader")
    statement = f"SELECT CAST(value AS STRING) AS v FROM source.`{topic}` ORDER BY offset"
    arguments = [sys.executable, "-m", "mirror_connect.cli", "sql", statement, "--source", str(path), "-o", "json"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=RUN_S, check=False, cwd=tmp_path)
    assert [json.loads(each)["v"] for each in done.stdout.splitlines()] == ["one", "two"], done.stderr
    arguments[4] = f"SELECT count(*) FROM source.`{hidden}`"
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=RUN_S, check=False, cwd=tmp_path)
    told = [each for each in done.stderr.splitlines() if not each.endswith(" read")]
    assert (done.returncode, len(told)) == (2, 1)
    assert f"grant DESCRIBE and READ on topic {hidden} to the source user" in told[0]
    assert "SECRET" not in done.stderr + done.stdout
