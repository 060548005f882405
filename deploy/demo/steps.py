"""The steps of the demo, in order. A new step is a new function, named in STEPS."""

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
    """Starts kafka-1 and kafka-2 at the same time, with the article's users and topics."""
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
    """Starts the worker and waits until its REST interface answers."""
    port = free_port()
    values = {"KAFKA1": stage.source.bootstrap_servers, "KAFKA2": stage.target.bootstrap_servers, "PORT": str(port)}
    fill_in(stage.directory, values)
    environment = {
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={stage.directory}/restapi-jaas.conf",
        "CONNECT_ADVERTISED_HOST": "127.0.0.1",
    }
    stage.start_worker(port, environment)


def deploy_connectors(stage: Stage) -> None:
    """Runs the article's deploy-connectors.sh with its three connectors, both unchanged."""
    environment = {
        **os.environ,
        "CONNECT_REST_API": stage.url,
        "CONNECT_USERNAME": REST_USER,
        "CONNECT_PASSWORD": REST_PASSWORD,
    }
    script = stage.directory / "deploy-connectors.sh"
    for line in run_script(stage, "deploy-connectors.sh is running", ["bash", script], environment):
        # curl's output ends without a newline, so the script's next line follows on the same line.
        for part in re.findall(r"^HTTP/.*|\[(?:INFO|ERROR)\].*", line):
            stage.screen.quote(part)


def wait_until_running(stage: Stage) -> None:
    """Waits for Spark, then until every connector and its tasks are RUNNING."""

    def spark_is_up() -> bool:
        stage.worker.check_alive()
        return stage.worker.spark_is_up()

    # Reading the process tree costs more than a REST request, so it is done less often.
    stage.screen.wait("Spark is starting", spark_is_up, PATIENCE_S, poll_s=0.3)
    stage.screen.say("Spark is up")
    # There are no groups on kafka-1 yet, and a checkpoint connector has no task before there is one.
    _wait_until_all_run(stage, without_tasks=CHECKPOINT_CONNECTOR)
    for name, seen in _states(stage).items():
        stage.screen.say(f"{name} is {_described(seen)}")


def copy_lines(stage: Stage) -> None:
    """Writes real lines into `test` on kafka-1, and shows the first ones that arrive in `kafka-1.test` on kafka-2."""
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
            # Equal end offsets mean that copying is done. A later step compares both topics.
            over = lines.all_written and arrivals.count >= len(lines) and lines.ends() == arrivals.ends()
            # If nothing arrives any more, the later comparison shows what is missing or too much.
            return over or time.monotonic() - heard > SILENT_S

        stage.screen.say(f"{len(lines):,} lines into {SOURCE_TOPIC} on kafka-1, out of {TARGET_TOPIC} on kafka-2:")
        stage.screen.wait(
            lambda: f"{lines.written:,} of {len(lines):,} lines written, {arrivals.count:,} arrived",
            all_there,
            PATIENCE_S,
            poll_s=0.02,
        )
        ends = arrivals.ends()
    equal = "the same as" if ends == lines.ends() else "not the same as"
    stage.screen.say(f"{arrivals.count:,} have arrived; the end offsets are {equal} the source's")


def prove_copy(stage: Stage) -> None:
    """Compares both topics completely, record by record."""
    source = read_whole(stage.source, READER, SOURCE_TOPIC)
    target = read_whole(stage.target, READER, TARGET_TOPIC)
    stage.claims += compare(source, target)
    stage.screen.say(f"{sum(map(len, source.values())):,} and {sum(map(len, target.values())):,} records read back")


def prove_worker(stage: Stage) -> None:
    """Claims about the worker: states of its connectors, logins, and hidden secrets."""
    _wait_until_all_run(stage)
    for name, seen in _states(stage).items():
        stage.prove(f"state: {name} is {_described(seen)}", _runs(seen))
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
    stage.screen.say("states, logins and logs are checked")


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
    """Waits until all connectors run with a task; `without_tasks` may have none. RuntimeError for a failed one."""

    def all_run() -> bool:
        stage.worker.check_alive()
        states = _states(stage)
        for name, seen in states.items():
            if "FAILED" in seen:
                trace = _first_trace(stage.rest.get(f"/connectors/{name}/status").json())
                raise RuntimeError(f"{name} is {_described(seen)}: {trace}")
        return all(_runs(states.get(name, []), 0 if name == without_tasks else 1) for name in stage.connectors)

    def doing() -> str:
        waits = [f"{name} is {_described(seen)}" for name, seen in _states(stage).items() if not _runs(seen)]
        return ", ".join(waits) or "no connector is there yet"

    stage.screen.wait(doing, all_run, PATIENCE_S)


def _runs(states: list[str], least_tasks: int = 1) -> bool:
    return len(states) > least_tasks and set(states) == {"RUNNING"}


def _described(states: list[str]) -> str:
    connector, *tasks = states
    if not tasks:
        return f"{connector}, no task yet"
    return f"{connector}, its task {tasks[0]}" if len(tasks) == 1 else f"{connector}, tasks: {' '.join(tasks)}"


def _first_trace(status: dict[str, Any]) -> str:
    traces = [part.get("trace", "") for part in (status["connector"], *status["tasks"])]
    return next((trace.strip().splitlines()[0] for trace in traces if trace.strip()), "it does not say why")
