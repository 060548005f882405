"""What the processes of tasks are given: specs, source offsets, orders."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from mirror_connect.app.supervisor.idleness import FIRST_PROCESS_S
from mirror_connect.app.supervisor.partition_assignment import LANDING_S
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.task_protocol import SourceOffset, TaskSpec
from tests.fakes.spark_rig import SECRET
from tests.fakes.supervised import A, Process, World, wanted


async def test_a_task_that_nothing_fences_off_is_told_its_positions_when_nothing_of_its_past_may_land(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    first = await world.running(A)
    await first.source_offsets(fenceable=False)
    world.application.alive.discard(first.pid)
    following = Process(world, world.run(A))
    await following.ask()
    with pytest.raises(ClusterUnreachable, match="its last process ended with requests under way"):
        await following.source_offsets(fenceable=False)
    assert world.events.trace(A).startswith(f"Waits up to {LANDING_S:g} s: ")
    for _ in range(int(LANDING_S) + 1):
        world.later(1.0)
        await following.say("STARTING", 0)
    assert await following.source_offsets(fenceable=False) == [SourceOffset("t", 0, 7)]


async def test_a_task_on_another_machine_is_sent_what_it_needs_there_and_the_worker_keeps_its_own(world: World) -> None:
    world.supervisor.requests._carried = lambda spec: replace(spec, source={"ssl.keystore.key": "a-key"})
    world.supervisor.want({A: wanted("t-0")})
    run = world.run(A)
    sent = await world.supervisor.requests.spec(run, "one")
    assert sent is not None
    assert run.spec is not None
    # Texts for people are searched for each secret: not for the content of stores.
    assert (sent.source["ssl.keystore.key"], run.spec.source, "a-key" in run.secrets) == ("a-key", {}, False)


async def test_a_store_that_cant_be_read_for_a_task_on_another_machine_fails_the_task(world: World) -> None:
    def unreadable(_: TaskSpec) -> TaskSpec:
        raise ConfigError("ssl.keystore.location", "/nowhere", "no such file")

    world.supervisor.requests._carried = unreadable
    world.supervisor.want({A: wanted("t-0")})
    assert await world.supervisor.requests.spec(world.run(A), "one") is None
    assert world.events.of(A)[-1] == "FAILED"
    assert "ssl.keystore.location" in (world.events.trace(A) or "")


async def test_a_process_that_was_replaced_does_not_say_whether_its_successor_is_fenced_off(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    first, second = Process(world, world.run(A)), Process(world, world.run(A))
    await first.ask()
    await second.ask()
    await second.source_offsets(fenceable=False)
    replaced = await first.source_offsets(fenceable=True)
    await second.say("RUNNING")
    world.application.alive.discard(second.pid)
    third = Process(world, first.run)
    await third.ask()
    with pytest.raises(ClusterUnreachable, match="its last process ended with requests under way"):
        await third.source_offsets(fenceable=True)
    assert replaced is None


@pytest.mark.parametrize("failure", [None, ClusterUnreachable("away")])
async def test_who_is_replaced_while_its_positions_are_read_is_told_none_and_its_failure_is_nobodys(
    world: World, failure: Exception | None
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    first, second = Process(world, world.run(A)), Process(world, world.run(A))
    await first.ask()
    world.specs.no_positions = failure
    world.specs.building.clear()
    asking = asyncio.create_task(first.source_offsets())
    await asyncio.sleep(0)
    world.specs.building.set()
    await second.ask()
    assert (await asking, world.events.states) == (None, [])


async def test_a_trace_hides_what_the_config_keeps_secret(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"a.password": "${file:/secrets:password}"})})
    await (await world.running(A)).say("FAILED", trace=f"ValueError: {SECRET}")
    assert world.events.trace(A) == "ValueError: [hidden]"


async def test_an_error_in_a_first_spec_hides_what_a_provider_gave(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"offset.lag.max": "${file:/secrets:lag}"})})
    # As a file has it that ends with a line break.
    world.specs.provided = {"offset.lag.max": "from-the-file\n"}
    world.specs.failure = ConfigError("offset.lag.max", "from-the-file", "Not a number of type INT")
    await Process(world, world.run(A)).ask()
    assert world.events.trace(A) == (
        "ConfigError: Invalid value [hidden] for configuration offset.lag.max: Not a number of type INT"
    )


async def test_the_trace_of_a_spec_that_met_a_mistake_of_ours_hides_what_a_provider_gave(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    # The handler's own net is not on this log.
    world.specs.failure = KeyError(SECRET)
    world.supervisor.want({A: wanted("t-0")})
    await Process(world, world.run(A)).ask()
    (record,) = [each for each in caplog.records if "can't be started" in each.getMessage()]
    told = logging.Formatter().format(record)
    assert "KeyError: '[hidden]'" in told
    assert "in build" in told
    assert SECRET not in told


async def test_an_error_in_a_later_spec_hides_what_has_changed_since(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"offset.lag.max": "${file:/secrets:lag}"})})
    world.specs.provided = {"offset.lag.max": "100"}
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    world.specs.provided = {"offset.lag.max": "from-the-file"}
    world.specs.failure = ConfigError("offset.lag.max", "from-the-file", "Not a number of type INT")
    await Process(world, world.run(A)).ask()
    assert world.events.trace(A) == (
        "ConfigError: Invalid value [hidden] for configuration offset.lag.max: Not a number of type INT"
    )


async def test_what_a_task_waits_for_hides_what_a_provider_gave(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"bootstrap.servers": "${file:/secrets:servers}"})})
    world.specs.provided = {"bootstrap.servers": "inner.example:9092"}
    world.specs.failure = ClusterUnreachable("No broker of inner.example:9092 answered")
    process = Process(world, world.run(A))
    with pytest.raises(ClusterUnreachable):
        await process.ask()
    before = world.events.trace(A)
    world.specs.failure, world.specs.no_positions = None, NotAuthorized("inner.example:9092 refused")
    await process.ask()
    with pytest.raises(NotAuthorized):
        await process.source_offsets()
    assert (before, world.events.trace(A)) == (
        "No broker of [hidden] answered",
        "Its source offsets cannot be read: [hidden] refused",
    )


async def test_a_runs_secrets_are_in_use_until_its_end(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"a.password": "${file:/secrets:password}"})})
    process = await world.running(A)
    world.supervisor.want({})
    ending = world.supervisor.secrets()
    await process.say("FINISHED")
    assert (SECRET in ending, world.supervisor.secrets()) == (True, frozenset())


async def test_a_task_that_cannot_be_built_has_failed_with_one_line(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    world.specs.failure = NotAuthorized("The target cluster refused the credentials")
    assert await Process(world, world.run(A)).ask() is None
    assert world.events.trace(A) == "NotAuthorized: The target cluster refused the credentials"


async def test_a_task_whose_target_is_away_says_what_it_waits_for_once(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = Process(world, world.run(A))
    world.specs.failure = ClusterUnreachable("The target cluster can't be reached")
    for _ in range(3):
        with pytest.raises(ClusterUnreachable):
            await process.ask()
    assert world.events.states == [(A, "UNASSIGNED", "The target cluster can't be reached")]


async def test_what_a_task_waits_for_positions_for_is_said_once(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = Process(world, world.run(A))
    await process.ask()
    world.specs.no_positions = ClusterUnreachable("topic offsets: an open transaction")
    for _ in range(2):
        with pytest.raises(ClusterUnreachable):
            await process.source_offsets()
    assert world.events.states == [
        (A, "UNASSIGNED", "Its source offsets cannot be read: topic offsets: an open transaction")
    ]


@pytest.mark.parametrize(("lease", "milliseconds"), [(8.0, 8000), (-1.0, 0)])
async def test_orders_carry_the_lease_that_is_left(world: World, lease: float, milliseconds: int) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.lease = lease
    assert (await process.say("RUNNING")).lease_ms == milliseconds


async def test_a_task_that_is_to_finish_may_still_write(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({})
    orders = await process.say("RUNNING")
    assert (orders.finish, orders.lease_ms) == (True, 8000)


async def test_a_held_report_is_answered_when_the_task_is_to_finish(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    held = asyncio.create_task(process.say("RUNNING", hold=10.0))
    await asyncio.sleep(0)
    world.supervisor.want({})
    assert (await held).finish


async def test_what_a_task_lacks_is_one_status_that_changes_only_with_a_reason(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        "name": "c",
        "source.cluster.alias": "A",
        "spark.transform.sql": "SELECT value FROM records LEFT JOIN a ON a.id = key LEFT JOIN b ON b.id = key",
        **{f"spark.transform.lookup.{name}": str(tmp_path / f"{name}.csv") for name in "ab"},
        **{f"spark.transform.lookup.{name}.schema": "id STRING" for name in "ab"},
    }
    world.supervisor.want({A: wanted("t-0", **config)})
    run = world.run(A)

    async def ask(seconds: int) -> None:
        for _ in range(seconds):
            for name in "ba":
                with contextlib.suppress(ClusterUnreachable):
                    await world.supervisor.requests.lookup(run, name, ["id"])
            world.later(1.0)

    # Longer than Spark has to begin a process.
    await ask(int(FIRST_PROCESS_S) + 10)
    traces = [trace or "" for _, _, trace in world.events.states]
    assert [trace.count("No such file") for trace in traces] == [1, 2]
    assert [line.split(" (")[0] for line in traces[-1].splitlines()] == ["Lookup a", "Lookup b"]
    assert len([line for line in caplog.messages if "is UNASSIGNED" in line]) == len(traces)
    (tmp_path / "a.csv").write_text("id\nx\n")
    await ask(10)
    last = world.events.trace(A) or ""
    assert (last.startswith("Lookup b"), last.count("No such file"), len(world.events.states)) == (True, 1, 3)
    # What comes after the lookups is told again.
    (tmp_path / "b.csv").write_text("id\nx\n")
    await ask(10)
    assert (world.events.trace(A) or "").startswith("Spark was asked to run it at ")
