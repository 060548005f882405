"""The steps of the demo, in their order. To show one thing more, write one function more and name it in STEPS."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any, Final

import httpx

from deploy.demo.failover import CONNECTOR as CHECKPOINT_CONNECTOR
from deploy.demo.failover import move_group
from deploy.demo.proof import compare, read_whole
from deploy.demo.records import PARTITIONS, SILENT_S, SOURCE_TOPIC, TARGET_TOPIC, Arrivals, SourceLines
from deploy.demo.run_directory import fill_in
from deploy.demo.stage import PATIENCE_S, READER, REST_PASSWORD, REST_USER, Stage, Step, run_script
from deploy.demo.worker import WorkerProcess
from deploy.local import LocalCluster, free_port, start_all

USERS_1: Final = {
    "admin": "admin-secret",
    "kafkaui": "kafkaui-secret",
    "connect": "connect1-secret",
    "mirrormaker": "mirrormaker1-secret",
}
USERS_2: Final = {
    "admin": "admin-secret",
    "kafkaui": "kafkaui-secret",
    "connect": "connect2-secret",
    "mirrormaker": "mirrormaker2-secret",
}
SECRETS: Final = (*USERS_1.values(), *USERS_2.values(), "init-secret", "health-secret", "vscode-secret")
SHOWN: Final = 5


def start_clusters(stage: Stage) -> None:
    """kafka-1 and kafka-2 with the article's users and topics, both starting at the same time."""
    source = LocalCluster("kafka-1", listeners=["SASL_PLAINTEXT"], users=USERS_1)
    target = LocalCluster("kafka-2", listeners=["SASL_PLAINTEXT"], users=USERS_2)
    stage.set_clusters(source, target)

    def start() -> None:
        start_all(source, target)
        for cluster in (source, target):
            cluster.create_topic(SOURCE_TOPIC, partitions=PARTITIONS)

    def give_up() -> None:
        source.close()
        target.close()

    stage.screen.wait_for("kafka-1 and kafka-2 are starting", start, PATIENCE_S, give_up)
    stage.screen.say(f"kafka-1 is up at {source.bootstrap_servers}, kafka-2 at {target.bootstrap_servers}")


def start_worker(stage: Stage) -> None:
    """The worker, until its REST interface answers."""
    port = free_port()
    values = {"KAFKA1": stage.source.bootstrap_servers, "KAFKA2": stage.target.bootstrap_servers, "PORT": str(port)}
    fill_in(stage.directory, values)
    environment = {
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={stage.directory}/restapi-jaas.conf",
        "CONNECT_ADVERTISED_HOST": "127.0.0.1",
    }
    worker = WorkerProcess(stage.directory / "connect.properties", stage.log, environment)
    stage.set_worker(worker, f"http://127.0.0.1:{port}")

    def answers() -> bool:
        worker.check_alive()
        with contextlib.suppress(httpx.TransportError):
            return stage.rest.head("/").status_code == httpx.codes.OK
        return False

    stage.screen.wait("the worker is starting", answers, PATIENCE_S)
    stage.screen.say(f"REST answers at {stage.url}")


def deploy_connectors(stage: Stage) -> None:
    """The article's deploy-connectors.sh, with the article's three connectors as they are."""
    environment = {
        **os.environ,
        "CONNECT_REST_API": stage.url,
        "CONNECT_USERNAME": REST_USER,
        "CONNECT_PASSWORD": REST_PASSWORD,
    }
    script = stage.directory / "deploy-connectors.sh"
    for line in run_script(stage, "deploy-connectors.sh is running", ["bash", script], environment):
        # What curl shows of an answer ends without a newline: the script's next line stands behind it.
        for said in re.findall(r"^HTTP/.*|\[(?:INFO|ERROR)\].*", line):
            stage.screen.quote(said)


def wait_until_running(stage: Stage) -> None:
    """Spark comes up while REST answers already; then every connector and its tasks are RUNNING."""

    def spark_is_up() -> bool:
        stage.worker.check_alive()
        return stage.worker.spark_is_up()

    # Looking through the process tree costs more than asking REST: it is done less often.
    stage.screen.wait("Spark is starting", spark_is_up, PATIENCE_S, poll_s=0.3)
    stage.screen.say("Spark is up")
    # There are no groups on kafka-1 yet, and a checkpoint connector has no task before there is one.
    _wait_until_all_run(stage, without_tasks=CHECKPOINT_CONNECTOR)
    for name, seen in _states(stage).items():
        stage.screen.say(f"{name} is {_told(seen)}")


def copy_lines(stage: Stage) -> None:
    """Real lines into `test` on kafka-1, the first ones shown as they arrive in `kafka-1.test` on kafka-2."""
    lines = SourceLines(stage.source)
    stage.closing.callback(lines.close)
    with contextlib.closing(Arrivals(stage.target)) as arrivals:
        heard = time.monotonic()

        def all_there() -> bool:
            nonlocal heard
            stage.worker.check_alive()
            lines.write_some()
            for record in arrivals.poll():
                heard = time.monotonic()
                if arrivals.count <= SHOWN:
                    stage.screen.quote(record)
            # The end offsets say when the copy is over, and both topics read whole what it is worth.
            over = lines.all_written and arrivals.count >= len(lines) and lines.ends() == arrivals.ends()
            # When nothing comes any more the comparison tells what is missing, or too much.
            return over or time.monotonic() - heard > SILENT_S

        stage.screen.say(f"{len(lines):,} lines into {SOURCE_TOPIC} on kafka-1, out of {TARGET_TOPIC} on kafka-2:")
        stage.screen.wait(
            lambda: f"{lines.written:,} of {len(lines):,} lines written, {arrivals.count:,} arrived",
            all_there,
            PATIENCE_S,
            poll_s=0.02,
        )
        ends = arrivals.ends()
    told = "the same as" if ends == lines.ends() else "not the same as"
    stage.screen.say(f"{arrivals.count:,} have arrived; the end offsets are {told} the source's")


def prove_copy(stage: Stage) -> None:
    """Both topics, whole, compared record by record."""
    source = read_whole(stage.source, READER, SOURCE_TOPIC)
    target = read_whole(stage.target, READER, TARGET_TOPIC)
    stage.claims += compare(source, target)
    stage.screen.say(f"{sum(map(len, source.values())):,} and {sum(map(len, target.values())):,} records read back")


def prove_worker(stage: Stage) -> None:
    """What the worker says of its connectors, to whom it says it, and what it keeps to itself."""
    _wait_until_all_run(stage)
    for name, seen in _states(stage).items():
        stage.prove(f"state: {name} is {_told(seen)}", _runs(seen))
    code = httpx.head(stage.url).status_code
    stage.prove(f"REST: without credentials it answers {code}, with them 200", code == httpx.codes.UNAUTHORIZED)
    log = stage.log.read_text(errors="replace")
    paths = [f"/connectors/{name}" for name in stage.connectors] + ["/connectors?expand=info&expand=status"]
    answers = "".join(stage.rest.get(path).text for path in paths)
    commands = stage.worker.command_lines()
    arguments = "".join(text for command in commands for text in command)
    found = sum(secret in log + answers + arguments for secret in set(SECRETS))
    stage.prove(
        f"secrets: {found} of {len(set(SECRETS))} passwords in {len(log.splitlines()):,} log lines, "
        f"{len(paths)} REST answers, {len(commands)} processes' arguments",
        not found,
    )
    stage.screen.say("states, logins and logs are looked through")


STEPS: Final = (
    Step("Two Kafka clusters, with SASL_PLAINTEXT/PLAIN users", start_clusters),
    Step("A worker: bin/connect-distributed.sh connect.properties", start_worker),
    Step("MirrorMaker 2's three connectors: deploy-connectors.sh", deploy_connectors),
    Step("Spark, and the connectors' tasks on it", wait_until_running),
    Step("Records from kafka-1 to kafka-2", copy_lines),
    Step("Both topics read back whole and compared", prove_copy),
    Step("A consumer group moves from kafka-1 to kafka-2", move_group),
    Step("The worker: states, logins, secrets", prove_worker),
)


def _states(stage: Stage) -> dict[str, list[str]]:
    """Connector → its state, then those of its tasks."""
    found = {}
    for name in stage.connectors:
        with contextlib.suppress(httpx.TransportError):
            answer = stage.rest.get(f"/connectors/{name}/status")
            if answer.status_code == httpx.codes.OK:
                status: dict[str, Any] = answer.json()
                found[name] = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
    return found


def _wait_until_all_run(stage: Stage, *, without_tasks: str = "") -> None:
    """Every connector with at least one task; `without_tasks`: the one that may have none. RuntimeError for a failed one."""

    def all_run() -> bool:
        stage.worker.check_alive()
        states = _states(stage)
        for name, seen in states.items():
            if "FAILED" in seen:
                trace = _first_trace(stage.rest.get(f"/connectors/{name}/status").json())
                raise RuntimeError(f"{name} is {_told(seen)}: {trace}")
        return all(_runs(states.get(name, []), 0 if name == without_tasks else 1) for name in stage.connectors)

    def doing() -> str:
        waits = [f"{name} is {_told(seen)}" for name, seen in _states(stage).items() if not _runs(seen)]
        return ", ".join(waits) or "no connector is there yet"

    stage.screen.wait(doing, all_run, PATIENCE_S)


def _runs(states: list[str], least_tasks: int = 1) -> bool:
    return len(states) > least_tasks and set(states) == {"RUNNING"}


def _told(states: list[str]) -> str:
    connector, *tasks = states
    if not tasks:
        return f"{connector}, no task yet"
    return f"{connector}, its task {tasks[0]}" if len(tasks) == 1 else f"{connector}, tasks: {' '.join(tasks)}"


def _first_trace(status: dict[str, Any]) -> str:
    traces = [part.get("trace", "") for part in (status["connector"], *status["tasks"])]
    return next((trace.strip().splitlines()[0] for trace in traces if trace.strip()), "it does not say why")
