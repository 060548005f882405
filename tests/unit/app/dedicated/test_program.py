"""The program of dedicated mode before it connects to anything: arguments, exit codes, names of nodes."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import pytest

from deploy.local.tls_material import create_tls_material
from mirror_connect.app.config.metrics_settings import MetricsSettings
from mirror_connect.app.dedicated import program as program_module
from mirror_connect.app.dedicated.flow_runner import FlowRunner
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.mm2_file import read_mm2_config
from mirror_connect.app.dedicated.process_configs import flow_configs, process_config
from mirror_connect.app.dedicated.program import THREADS, THREADS_OF_A_FLOW, DedicatedMirrorMaker
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized

COMMAND: Final = (sys.executable, "-m", "mirror_connect.app.dedicated.__main__")
FILE: Final = """
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:0
"""
# In a process of its own: a worker's parts are made for good.
BUILD: Final = """
import asyncio, sys
from mirror_connect.app.dedicated.process_configs import flow_configs, process_config
from mirror_connect.app.dedicated.program import DedicatedMirrorMaker
from mirror_connect.app.dedicated.mm2_file import read_mm2_config

async def build():
    config = read_mm2_config(sys.argv[1], sys.argv[2:] or None)
    program = DedicatedMirrorMaker(config, process_config(config), flow_configs(config), lambda _: None)
    for runner in program.flows:
        worker = runner._new_worker()
        print(runner._worker_id, runner._url, worker._supervisor.flow, worker._config.group_id, sep="|")

asyncio.run(build())
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)


def built(file: Path, *clusters: str) -> list[list[str]]:
    done = run(sys.executable, "-c", BUILD, str(file), *clusters)
    assert done.returncode == 0, done.stderr
    return [line.split("|") for line in done.stdout.splitlines()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def test_the_usage_is_that_of_mirrormaker() -> None:
    done = run(*COMMAND, "--help")
    assert (done.returncode, done.stdout.startswith("usage: connect-mirror-maker [-h]")) == (0, True)
    assert {"--clusters CLUSTER [CLUSTER ...]", "Target cluster to use for this node."} <= {
        line.strip() for line in done.stdout.splitlines()
    }


@pytest.mark.parametrize("arguments", [(), ("a", "b"), ("--cluster", "A", "a")])
def test_wrong_arguments_are_refused_with_the_usage(arguments: tuple[str, ...]) -> None:
    done = run(*COMMAND, *arguments)
    assert (done.returncode, done.stderr.startswith("usage: connect-mirror-maker")) == (2, True)


def test_each_mistake_of_the_file_is_a_line_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = 127.0.0.1:1\nA->B.enabled = true\nA->B.topics = a[\n")
    done = run(*COMMAND, str(path))
    lines = [line for line in done.stderr.splitlines() if line.startswith("mirror-connect: ")]
    assert (done.returncode, len(lines) > 1) == (2, True)
    assert all(str(path) in line for line in lines)


def test_a_node_with_rest_is_named_by_its_address_and_the_flow(file: Path) -> None:
    found = built(file)
    assert [(flow, group) for _, _, flow, group in found] == [("A->B", "A-mm2"), ("B->A", "B-mm2")]
    for worker_id, url, flow, _ in found:
        address = worker_id.removesuffix(f"/{flow}")
        assert (address.startswith("127.0.0.1:"), url) == (True, f"http://{address}/{flow[0]}/{flow[-1]}")


def test_a_node_without_rest_has_a_name_of_its_own(file: Path) -> None:
    file.write_text(FILE.replace("rest = true", "rest = false"))
    names = [worker_id.split("/") for worker_id, _, _, _ in [*built(file), *built(file)]]
    assert [flow for _, flow, _ in names] == ["A->B", "B->A"] * 2
    assert len({own for _, _, own in names}) == 4


def test_only_flows_to_the_clusters_of_this_node_run(file: Path) -> None:
    assert [flow for _, _, flow, _ in built(file, "B")] == ["A->B"]


def test_an_https_listener_takes_the_key_store_of_the_file_and_no_clusters(file: Path, tmp_path: Path) -> None:
    made = create_tls_material(tmp_path / "tls")
    secured = FILE.replace("http:", "https:") + "A.ssl.keystore.location = /none\nB.ssl.keystore.location = /none\n"
    own = f"ssl.keystore.type = PEM\nssl.keystore.location = {made.server.pem}\nssl.client.auth = required\n"
    file.write_text(f"{secured}{own}ssl.truststore.type = PEM\nssl.truststore.location = {made.authority_pem}\n")
    config = read_mm2_config(file)
    assert config.warnings == ()
    tls = process_config(config).tls
    assert tls is not None
    assert tls.verify_mode is ssl.CERT_REQUIRED
    file.write_text(secured.replace("/none", str(made.server.pem)) + "B.ssl.keystore.type = PEM\n")
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        process_config(read_mm2_config(file))


def test_the_port_of_metrics_is_of_the_process_and_no_flow_opens_it_again(file: Path) -> None:
    file.write_text(FILE + "metrics.port = 9404\nmetrics.names = jmx,reporter\nmetrics.detail = topic\n")
    config = read_mm2_config(file)
    assert config.warnings == ()
    assert process_config(config).metrics == MetricsSettings(port=9404, names=("jmx", "reporter"), detail="topic")
    assert {each.metrics.port for each in flow_configs(config).values()} == {None}


@pytest.mark.parametrize("clusters", [None, ["A"], ["B"]])
def test_a_cluster_gives_the_process_nothing_whichever_flow_is_the_first(
    file: Path, clusters: list[str] | None
) -> None:
    own = {
        "listeners": "http://127.0.0.1:19999",
        "plugin.path": "/other",
        "spark.driver.memory": "9g",
        "log.format": "json",
    }
    of_clusters = (f"{cluster}.{name} = {value}\n" for cluster in "AB" for name, value in own.items())
    file.write_text(FILE + "".join(of_clusters))
    config = read_mm2_config(file, clusters)
    found = process_config(config)
    assert ([each.port for each in found.listeners], found.plugin_path) == ([0], ())
    assert "spark.driver.memory" not in found.spark
    assert found.log_format == "text"
    assert {warning.name.partition(".")[2] for warning in config.warnings} >= set(own)


def test_the_format_of_the_log_is_that_of_the_file(file: Path) -> None:
    file.write_text(f"{FILE}log.format = json\n")
    config = read_mm2_config(file)
    assert (process_config(config).log_format, config.warnings) == ("json", ())


def test_each_doubtful_property_is_told_once_however_many_flows_have_it(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = """
C.bootstrap.servers = 127.0.0.1:3
B->C.enabled = true
C->A.enabled = true
config.providers = none, idle
B.sasl.jaas.config = ${env:PASSWORD}
C.sasl.jaas.config = ${none:PASSWORD}
status.storage.cleanup.policy = delete
"""
    file.write_text(FILE.replace("A, B", "A, B, C") + more)
    config = read_mm2_config(file)
    flow_configs(config)
    process_config(config)
    told = [warning.shown.partition(f"{file}:")[2].partition(": ")[2] for warning in config.warnings]
    assert caplog.messages == []
    assert told == [
        "config.providers=none, idle: the config provider idle has no class; set config.providers.idle.class",
        "B.sasl.jaas.config: the reference ${env:…} stays as text: there is no config provider env; "
        "name the provider in config.providers",
        "C.sasl.jaas.config: the reference ${none:…} stays as text: the config provider none has no class; "
        "set config.providers.none.class",
        "status.storage.cleanup.policy=delete: it has no effect: the worker needs its own value",
    ]


@dataclass
class FakeRunner:
    """A flow that comes up, or can't be started, when a test says so."""

    program: DedicatedMirrorMaker
    flow: Flow
    up: bool = False
    problem: Exception | None = None

    def start(self) -> None: ...

    def settle(self, problem: str | None, kind: type[Exception] = ClusterUnreachable) -> None:
        self.up, self.problem = problem is None, None if problem is None else kind(problem)
        self.program._settled.set()


@pytest.fixture
def no_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters need not be away for a minute."""
    monkeypatch.setattr(program_module, "GIVE_UP_S", 0.0)


@pytest.fixture
async def two_flows() -> tuple[asyncio.Task[None], FakeRunner, FakeRunner]:
    """The start of a program with two flows that are fakes."""
    program = DedicatedMirrorMaker.__new__(DedicatedMirrorMaker)
    program._settled = asyncio.Event()
    flows = [FakeRunner(program, Flow(*names, True, {}, {})) for names in ("AB", "BA")]
    program.flows = cast("list[FlowRunner]", cast("Any", flows))
    return asyncio.ensure_future(program._start()), flows[0], flows[1]


async def test_one_flow_is_enough_for_the_program_to_be_up(
    two_flows: tuple[asyncio.Task[None], FakeRunner, FakeRunner],
) -> None:
    start, first, second = two_flows
    first.settle("A is away")
    await asyncio.sleep(0.01)
    assert not start.done()
    second.settle(None)
    await asyncio.wait_for(start, 60)


async def test_flows_of_slow_clusters_have_a_minute_to_come_up(
    two_flows: tuple[asyncio.Task[None], FakeRunner, FakeRunner],
) -> None:
    start, first, second = two_flows
    for each in two_flows[1:]:
        each.settle("a topic did not appear within 30 s")
    await asyncio.sleep(0.01)
    assert not start.done()
    first.settle(None)
    await asyncio.wait_for(start, 60)
    assert second.problem is not None


async def test_flows_that_are_all_refused_end_the_program_at_once(
    two_flows: tuple[asyncio.Task[None], FakeRunner, FakeRunner],
) -> None:
    start, first, second = two_flows
    second.settle("B has refused the login", NotAuthorized)
    first.settle("A has refused the login", NotAuthorized)
    with pytest.raises(NotAuthorized, match="A has refused"):
        await asyncio.wait_for(start, 60)


@pytest.mark.usefixtures("no_minute")
async def test_without_any_flow_the_program_ends_with_the_reason_of_the_first(
    two_flows: tuple[asyncio.Task[None], FakeRunner, FakeRunner],
) -> None:
    start, first, second = two_flows
    second.settle("B is away")
    first.settle("A is away")
    with pytest.raises(ClusterUnreachable, match="A is away"):
        await asyncio.wait_for(start, 60)


async def test_the_program_has_the_threads_of_all_flows(
    two_flows: tuple[asyncio.Task[None], FakeRunner, FakeRunner],
) -> None:
    start, _, second = two_flows
    second.settle(None)
    await asyncio.wait_for(start, 60)
    threads = cast("Any", asyncio.get_running_loop())._default_executor
    assert threads._max_workers == THREADS + 2 * THREADS_OF_A_FLOW
