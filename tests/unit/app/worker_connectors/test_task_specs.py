"""What a task is told to copy: partitions, and what they are called on the target."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from mirror_connect.app.storage.offsets import OffsetStore, offset_key
from mirror_connect.app.worker_connectors import task_specs
from mirror_connect.app.worker_connectors.factory import WorkerConnectorFactory
from mirror_connect.app.worker_connectors.offset_stores import OffsetStores, OpenStore, Reported
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.app.worker_connectors.task_specs import TaskSpecs
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import SourceOffset, TaskId, TaskPartition, TaskSpec
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from tests.fakes.config_topic import no_others, viewed, with_tasks
from tests.fakes.connector_context import FakeContext
from tests.fakes.topic_log import FakeTopic, FakeTopicLog

CONFIG = {
    "name": "c",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "replication.policy.class": IDENTITY_POLICY,
    "task.assigned.partitions": "connect-configs-0,orders-0",
}


class Targets:
    def __init__(self, producer: Mapping[str, str]) -> None:
        self._producer = {"bootstrap.servers": "127.0.0.1:2", **producer}

    async def chosen(self, config: Mapping[str, str]) -> Target:
        return Target(True, self._producer, {}, reserved=frozenset({"connect-configs"}))

    async def errors(self, config: Mapping[str, str]) -> list[str]:
        return []


class Worker:
    offset_flush_interval_ms = 1000


class Addresses:
    async def check(self, *_: object) -> None: ...


async def test_a_task_config_that_another_worker_wrote_leads_to_none_of_the_workers_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    spec = await specs_of().build("run", TaskId("c", 0), CONFIG, CONFIG, 1)
    assert spec.assigned == (TaskPartition("orders", 0, "orders"),)


LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "letters",
    "transforms": "drop",
    "transforms.drop.type": "DropHeaders",
    "transforms.drop.headers": "${file:/s:h}",
}


@pytest.mark.parametrize("context", ["true", "false"])
async def test_a_task_that_tells_of_errors_on_the_target_knows_what_to_hide(
    context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    raw = {
        **CONFIG,
        **LETTERS,
        "errors.deadletterqueue.context.headers.enable": context,
        "task.assigned.partitions": "letters-0,orders-0",
    }
    spec = await specs_of().build("run", TaskId("c", 0), raw, {**raw, "transforms.drop.headers": "from-a-provider"}, 1)
    assert spec.hidden == (("from-a-provider",) if context == "true" else ())
    assert "from-a-provider" not in repr(spec)
    assert TaskSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    # No copy goes into the topic of dead letters, whatever the task config.
    assert spec.assigned == (TaskPartition("orders", 0, "orders"),)


async def test_a_task_knows_the_name_that_a_route_gave_and_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    route = {"type": "RegexRouter", "regex": "orders|connect.*", "replacement": "connect-configs", "predicate": "not"}
    config = {
        **CONFIG,
        "task.assigned.partitions": "heartbeats-0,orders-0,other-1,users-2",
        "transforms": "one,two",
        **{f"transforms.one.{name}": value for name, value in route.items() if name != "predicate"},
        **{f"transforms.two.{name}": value for name, value in {**route, "regex": "u.*", "replacement": "x"}.items()},
        "predicates": "not",
        "predicates.not.type": "TopicNameMatches",
        "predicates.not.pattern": "users",
    }
    spec = await specs_of().build("run", TaskId("c", 0), config, config, 1)
    # The worker's own topic is none that a route may lead to.
    assert spec.assigned == (
        TaskPartition("heartbeats", 0, "A.heartbeats", heartbeats=True),
        TaskPartition("other", 1, "other"),
        TaskPartition("users", 2, "x", named="users"),
    )
    assert TaskSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.parametrize(
    ("setting", "provided"),
    [
        # Errors show a number as it was understood, and one entry of a list: neither is the text that a provider gave.
        pytest.param("tasks.max", "-0012345", id="number"),
        pytest.param("topics", "orders, s3cret(", id="entry"),
    ],
)
async def test_an_error_at_the_start_quotes_the_reference_to_a_provider(
    setting: str, provided: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    written = {**CONFIG, setting: "${file:/secrets:it}"}
    with pytest.raises(ConfigError) as raised:
        await specs_of().build("run", TaskId("c", 0), written, {**written, setting: provided}, 1)
    with pytest.raises(ConfigError) as of_connector:
        WorkerConnectorFactory(_any(None), _any(None), viewed().snapshot, no_others())(
            written, {**written, setting: provided}, FakeContext()
        )
    shown = str(raised.value)
    assert shown == str(of_connector.value)
    assert ("${file:/secrets:it}" in shown, "12345" in shown, "s3cret" in shown) == (True, False, False)


async def test_task_configs_that_nobody_can_read_leave_their_connector_to_be_assigned_anew() -> None:
    stored = [{"task.assigned.partitions": f"orders-1,a,-1,b-{'9' * 30}"}, {"task.assigned.partitions": None}, {}]
    topic = viewed(*with_tasks("c", CONFIG, *stored))
    part = WorkerConnectorFactory(_any(None), _any(None), topic.snapshot, no_others())(CONFIG, CONFIG, FakeContext())
    assert [list(map(str, each)) for each in part._assignment] == [["orders-1"], [], []]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("stored", "position"),
    [
        pytest.param(b'{"offset":7}', 7, id="offset"),
        pytest.param(b'{"offset":9223372036854775806}', 2**63 - 2, id="the_last_one_there_can_be"),
        pytest.param(b'{"offset":9223372036854775807}', None, id="behind_which_there_is_none"),
        pytest.param(b'{"offset":-1}', None, id="negative"),
        pytest.param(b'{"offset":true}', None, id="boolean"),
        pytest.param(b'{"offset":"7"}', None, id="text"),
        pytest.param(b'{"offset":7.0}', None, id="fraction"),
        pytest.param(b"{}", None, id="none"),
        pytest.param(b"[]", None, id="no_object"),
    ],
)
async def test_what_no_offset_can_be_is_no_position(
    stored: bytes, position: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    topic = FakeTopic()
    store = OffsetStore(FakeTopicLog(topic))
    await store.start()
    topic.add(offset_key("c", {"cluster": "A", "partition": 0, "topic": "orders"}), stored)
    specs = specs_of(store)
    spec = await specs.build("run", TaskId("c", 0), CONFIG, CONFIG, 1)
    assert [each.offset for each in await specs.source_offsets(spec, [("orders", 0), ("orders", 1)])] == [
        position,
        None,
    ]


def specs_of(
    offsets: OffsetStore | None = None,
    fence: Callable[[str], Awaitable[None]] | None = None,
    producer: Mapping[str, str] | None = None,
) -> TaskSpecs:
    worker, targets, store = Worker(), Targets(producer or {}), OpenStore(_any(offsets), "connect-offsets", 5)

    async def other(_: Target) -> OpenStore:
        return store

    stores = OffsetStores(lambda: store, other)
    return TaskSpecs(_any(worker), lambda config: config, _any(targets), stores, lambda task: f"g-{task}", fence=fence)


def _any(value: Any) -> Any:
    return value


async def test_reported_offsets_are_stored_as_a_task_would_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    taken: list[Reported] = []
    monkeypatch.setattr(OffsetStores, "reported", lambda _, entries: taken.extend(entries))
    specs, task = specs_of(), TaskId("c", 0)
    await specs.build("run", task, CONFIG, CONFIG, 1)
    topic_id = topic_id_text(b"0123456789abcdef")
    # A topic that was made again and is empty has none yet: the former one's tells that it was another topic.
    specs.copied(task, [SourceOffset("orders", 3, 7, topic_id, 5), SourceOffset("orders", 4, -1, topic_id, 5)])
    specs.wrote_for(task, ['["c",{"sourceClusterAlias":"A"}]'])
    assert taken == [
        Reported(
            b'["c",{"cluster":"A","partition":3,"topic":"orders"}]',
            b'{"offset":7}',
            (("mirror-connect.topic.id", topic_id.encode()), ("mirror-connect.leader.epoch", b"5")),
        ),
        Reported(b'["c",{"sourceClusterAlias":"A"}]', b'{"offset":0}'),
    ]


async def test_a_task_that_has_a_topic_for_them_reports_no_offsets() -> None:
    with pytest.raises(RuntimeError, match="a task that has a topic for them"):
        specs_of().wrote_for(TaskId("c", 0), ["[]"])


@pytest.mark.parametrize(
    ("settings", "boundary"),
    [
        pytest.param({}, ("poll", 1000), id="default"),
        pytest.param({"transaction.boundary": "INTERVAL"}, ("interval", 1000), id="the_workers_flush_interval"),
        pytest.param(
            {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "250"},
            ("interval", 250),
            id="its_own_interval",
        ),
    ],
)
async def test_a_task_that_copies_exactly_once_is_told_when_its_transactions_end(
    settings: dict[str, str], boundary: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    fenced: list[str] = []

    async def fence(connector: str) -> None:
        fenced.append(connector)

    config = {**CONFIG, **settings}
    producer = {"transactional.id": "mine", "enable.idempotence": "false", "transaction.timeout.ms": "30000"}
    spec = await specs_of(fence=fence, producer=producer).build("run", TaskId("c", 3), config, config, 1)
    assert (spec.exactly_once, spec.transactional_id, fenced) == (True, "g-c-3", ["c"])
    assert (spec.transaction_boundary, spec.transaction_interval_ms) == boundary
    assert dict(spec.target) == {
        "bootstrap.servers": "127.0.0.1:2",
        "enable.idempotence": "true",
        "transaction.timeout.ms": "30000",
    }


async def test_a_task_gets_neither_spec_nor_source_offsets_before_former_tasks_are_fenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    problem: list[Exception] = []

    async def fence(_: str) -> None:
        if problem:
            raise problem[0]

    specs = specs_of(fence=fence)
    spec = await specs.build("run", TaskId("c", 0), CONFIG, CONFIG, 1)
    problem.append(ClusterUnreachable("not fenced yet"))
    with pytest.raises(ClusterUnreachable, match="not fenced yet"):
        await specs.build("run", TaskId("c", 0), CONFIG, CONFIG, 1)
    with pytest.raises(ClusterUnreachable, match="not fenced yet"):
        await specs.source_offsets(spec, [("orders", 0)])


async def test_a_task_that_copies_at_least_once_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)
    producer = {"enable.idempotence": "false"}
    spec = await specs_of(producer=producer).build("run", TaskId("c", 0), CONFIG, CONFIG, 1)
    assert (spec.exactly_once, spec.target["enable.idempotence"]) == (False, "false")


async def test_a_boundary_that_no_connector_here_has_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_specs, "FirstAddresses", Addresses)

    async def fence(_: str) -> None: ...

    config = {**CONFIG, "transaction.boundary": "connector"}
    with pytest.raises(ConfigError, match=r"transaction\.boundary: the connector does not define its own"):
        await specs_of(fence=fence).build("run", TaskId("c", 0), config, config, 1)
