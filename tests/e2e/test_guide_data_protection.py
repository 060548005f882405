"""docs/guide/data-protection.md, followed: what leaves the private cluster, and nobody is shown what must not leave it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import Message
from confluent_kafka.admin import ConfigResource, ResourceType

from deploy.local import LocalCluster, free_port
from tests.brokers import commit, committed, messages, started
from tests.e2e.ends import wait_ends
from tests.e2e.guide_pages import Follower
from tests.e2e.product import PATIENCE_S
from tests.e2e.users_shell import Shell, Started
from tests.paths import ROOT
from tests.waiting import wait_for, wait_for_state

# A pair of brokers and a worker of its own, and a dozen of Kafka's tools are started.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

TOPIC, REMOTE, GROUP = "customers", "private.customers", "crm"
PREVIEW: Final = "/connector-plugins/MirrorSourceConnector/config/preview"
# Source offset → key of what is copied.
COPIED: Final = {0: "c1", 2: "c3", 4: "c5", 6: "c7", 7: "c3", 9: "c9"}
END: Final = 10


class Walk:
    """The two clusters, the user's shell, and the worker once the page has started it."""

    def __init__(self, private: LocalCluster, public: LocalCluster, shell: Shell, rest: httpx.Client) -> None:
        self.private, self.public, self.shell, self.rest = private, public, shell, rest
        self.worker: Started | None = None
        # All that REST has answered.
        self.answers: list[str] = []

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response | None:
        """The worker's answer; None if there is none."""
        assert self.worker is not None
        self.worker.check_alive()
        try:
            answer = self.rest.request(method, path, json=body)
        except httpx.TransportError:
            return None
        self.answers.append(answer.text)
        return answer

    def wait_state(self, connector: str, state: str) -> None:
        """Until the connector has a task in this state."""

        def there() -> bool:
            answer = self.ask("GET", f"/connectors/{connector}/status")
            return answer is not None and [each["state"] for each in answer.json().get("tasks", ())] == [state]

        wait_for_state(there, f"the task of {connector} is {state}", PATIENCE_S)

    def config(self) -> dict[str, str]:
        """That of the page."""
        return dict(json.loads((self.shell.directory / "customers.json").read_text()), name="customers")


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    private, public = LocalCluster("private"), LocalCluster("public")
    with ExitStack() as stack:
        stack.enter_context(started(private, public))
        port = free_port()
        secrets = tmp_path / "etc"
        secrets.mkdir()
        places = {
            "localhost:9192": private.bootstrap_servers,
            "localhost:9092": public.bootstrap_servers,
            "localhost:8083": f"127.0.0.1:{port}",
            "127.0.0.1:8083": f"127.0.0.1:{port}",
            "/etc/mirror-connect": str(secrets),
        }
        shell = stack.enter_context(Shell(tmp_path, places))
        (tmp_path / ".cache").symlink_to(ROOT / ".cache")
        rest = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=90)
        stack.callback(rest.close)
        yield Walk(private, public, shell, rest)


def watch_spark(walk: Walk) -> list[int]:
    """Lets Spark write its events to a directory, and serve its pages, which the guide does not do; their ports.

    There are two Spark applications: statements have one of their own.
    """
    ports = [free_port() for _ in range(2)]
    (walk.shell.directory / "events").mkdir()
    with (walk.shell.directory / "worker.properties").open("a") as file:
        file.write(
            "spark.eventLog.enabled=true\nspark.eventLog.compress=false\n"
            f"spark.eventLog.dir=file:{walk.shell.directory}/events\n"
            f"spark.ui.enabled=true\nspark.ui.port={ports[0]}\nspark.transform.ui.port={ports[1]}\n"
        )
    return ports


def test_customers_leave_as_the_statement_says_and_nobody_sees_more(walk: Walk) -> None:
    private, public, shell = walk.private, walk.public, walk.shell
    page = Follower("data-protection", shell)
    ports = watch_spark(walk)
    page.run("kafka-topics.sh")
    page.run("kafka-console-producer.sh")
    page.run("(umask 077")
    secrets = shell.directory / "etc" / "secrets.properties"
    assert secrets.stat().st_mode & 0o077 == 0
    pepper = secrets.read_text().strip().removeprefix("pepper=")
    walk.worker = page.start("bin/connect-distributed.sh")

    def answers_previews() -> bool:
        answer = walk.ask("POST", PREVIEW, walk.config())
        return answer is not None and answer.is_success and answer.json()["preview"] is not None

    wait_for_state(answers_previews, "Spark answers a preview", PATIENCE_S)
    hidden = hidden_texts(walk, pepper)
    shown = page.run(".venv/bin/mirror-connect preview")
    assert "4 of 7 records would be copied" in shown
    assert [each for each in hidden if each in shown] == []
    check_preview(walk, pepper)

    assert "config" in json.loads(page.run("curl -X PUT"))
    assert [line.split("\t")[0] for line in page.run("kafka-console-consumer.sh").splitlines()] == [
        "c1",
        "c3",
        "c5",
        "c7",
    ]
    assert json.loads(all_of(public, REMOTE)[0].value()) == customer(1, "ada", "1111", pepper)
    check_compacted(public)

    page.run("echo 'c3|NULL'")
    assert page.run("kafka-console-consumer.sh").split() == ["c3", "null"]
    wait_ends(public, REMOTE, {0: 5})

    page.run("echo 'c8|")
    walk.wait_state(TOPIC, "FAILED")
    trace = page.run("curl -s")
    assert "offset 8" in trace
    assert TOPIC in trace
    walk.answers.append(trace)
    assert "config" in json.loads(page.run("curl -X PATCH").splitlines()[-1])
    page.run("echo 'c9|")
    wait_ends(public, REMOTE, {0: 6})
    copied = all_of(public, REMOTE)
    assert [(message.key() or b"").decode() for message in copied] == list(COPIED.values())
    assert [message.value() is None for message in copied] == [
        key == "c3" and at > 1 for at, key in enumerate(COPIED.values())
    ]
    assert json.loads(copied[5].value()) == customer(9, "ida", "9999", pepper)

    page.run("kafka-console-consumer.sh")
    # A group at each offset, besides the page's, must come to where its next copied record is.
    for offset in range(1, END + 1):
        commit(private, f"{GROUP}-{offset}", TOPIC, offset)
    assert "config" in json.loads(page.run("curl -X PUT"))
    wait_for(
        lambda: committed(public, GROUP, REMOTE) == {0: 2}, f"{GROUP} has its offset on the public cluster", PATIENCE_S
    )
    described = [line.split() for line in page.run("kafka-consumer-groups.sh").splitlines()]
    assert [row[3:6] for row in described if row[:2] == [GROUP, REMOTE]] == [["2", "6", "4"]]
    rest = [line.split("\t")[0] for line in page.run("kafka-console-consumer.sh").splitlines()]
    assert rest == ["c5", "c7", "c3", "c9"]
    page.close()
    expected = {offset: {0: sum(each < offset for each in COPIED)} for offset in range(1, END + 1)}

    def translated() -> bool:
        return {offset: committed(public, f"{GROUP}-{offset}", REMOTE) for offset in expected} == expected

    wait_for(translated, "each group is where its next record is", PATIENCE_S)

    # One more preview, now with all kinds of records; and what REST refuses.
    check_preview(walk, pepper)
    config = walk.config()
    config["spark.transform.sql"] = "SELECT secrets.pepper AS topic, value.email AS nothing FROM records"
    refused = walk.ask("PUT", "/connectors/customers/config", config)
    assert refused is not None
    assert refused.status_code == 400
    for path in ("/connectors?expand=info&expand=status", "/connectors/customers/tasks", "/admin/links"):
        assert walk.ask("GET", path) is not None
    check_nothing_is_shown(walk, ports, hidden_texts(walk, pepper))
    assert walk.worker.terminate() == 0
    check_nothing_is_shown(walk, [], hidden_texts(walk, pepper))


def all_of(cluster: LocalCluster, topic: str) -> list[Message]:
    """The records of a topic's one partition."""
    return list(messages(cluster, topic, 0))


def customer(number: int, name: str, last: str, pepper: str) -> dict[str, Any]:
    """What the public cluster has to get."""
    hashed = hashlib.sha256(f"{pepper}{name}@example.org".encode()).hexdigest()
    return {"id": number, "country": "EU", "email": hashed, "card": f"****{last}"}


def hidden_texts(walk: Walk, pepper: str) -> set[str]:
    """What must be nowhere but on the private cluster: the secret, and what is masked, of every customer there."""
    found = {pepper}
    for message in all_of(walk.private, TOPIC):
        text = (message.value() or b"").decode()
        found |= {word for word in text.replace('"', " ").split() if "@" in word or word.startswith("400000")}
        found |= {"likes tea"} if "tea" in text else set()
    assert len(found) >= 1 + 2 * 7 + 1
    return found


def check_compacted(public: LocalCluster) -> None:
    """The remote topic is compacted, as its source is."""
    asked = ConfigResource(ResourceType.TOPIC, REMOTE)

    def compacted() -> bool:
        found = public.admin().describe_configs([asked])[asked].result(60)
        return bool(found["cleanup.policy"].value == "compact")

    wait_for(compacted, f"{REMOTE} is compacted", PATIENCE_S)


def check_preview(walk: Walk, pepper: str) -> None:
    """A preview shows the very records that are copied, and says why others are not. `before` is another request."""
    answer = walk.ask("POST", f"{PREVIEW}?records=50", walk.config())
    assert answer is not None
    assert answer.json()["errors"] == []
    records = answer.json()["preview"]["records"]
    for each in records:
        kept = each["offset"] in COPIED
        assert (each["before"], each["kept"], each["remote_topic"]) == (None, kept, REMOTE), each
        assert (each["error"] is not None) == (each["offset"] == 8), each
        after = each["after"]
        assert (after and after["key"]["data"]) == (COPIED[each["offset"]] if kept else None)
    shown = {
        each["offset"]: each["after"]["value"]["data"] for each in records if each["after"] and each["after"]["value"]
    }
    copied = dict(zip(COPIED, all_of(walk.public, REMOTE), strict=False)) if len(records) == END else {}
    for offset, message in copied.items():
        assert (message.value() or b"").decode() == shown.get(offset, "")
    assert json.loads(shown[0]) == customer(1, "ada", "1111", pepper)
    # Not kept among the answers: this is for those who may see it.
    before = walk.rest.post(f"{PREVIEW}?before=true", json=walk.config())
    assert "ada@example.org" in before.text
    assert pepper not in before.text


def check_nothing_is_shown(walk: Walk, ports: Sequence[int], hidden: set[str]) -> None:
    """In the worker's log, answers of REST, and Spark's events and pages. `ports`: of the pages, while they are there."""
    assert walk.worker is not None
    events = "".join(
        path.read_text("utf-8", "replace") for path in (walk.shell.directory / "events").rglob("*") if path.is_file()
    )
    texts = {"log": walk.worker.text(), "answers": "\n".join(walk.answers), "events": events}
    # Each of them is about what is looked for: the bad record, the statement, the columns.
    assert "offset 8" in texts["log"]
    assert "sha2(" in texts["answers"]
    assert "__changed_value" in texts["events"]
    if ports:
        texts["pages"] = "\n".join(map(spark_pages, ports))
        assert "LocalTableScan" in texts["pages"], "Spark's pages show the plan of a preview"
    assert {(name, each) for name, text in texts.items() for each in hidden if each in text} == set()


def spark_pages(port: int) -> str:
    """What Spark serves of an application: jobs, stages, SQL executions with their plans, and the environment."""
    base = f"http://127.0.0.1:{port}"
    (application,) = httpx.get(f"{base}/api/v1/applications", timeout=60).json()
    below = f"api/v1/applications/{application['id']}"
    resources = ("jobs", "stages", "sql?details=true&planDescription=true", "environment", "executors")
    pages = ("", "SQL/", "StreamingQuery/", "environment/")
    asked = [*(f"{below}/{each}" for each in resources), *pages]
    return "\n".join(httpx.get(f"{base}/{each}", timeout=60, follow_redirects=True).text for each in asked)
