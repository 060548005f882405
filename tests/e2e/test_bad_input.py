"""What a user gets wrong through REST is answered in one line; and no password is seen anywhere, whatever goes wrong."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
import pytest

from deploy.local import LocalCluster, free_port
from tests.brokers import started
from tests.e2e.ends import wait_ends
from tests.e2e.numbered import Writer
from tests.e2e.product import DAEMON, DRIVER, JVM, TASK, WORKER, Product, mirror_config
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

TARGET_PASSWORD: Final = "target-horse-battery"
SOURCE_PASSWORD: Final = "source-staple-correct"
WRONG_PASSWORD: Final = "wrong-donkey-charger"
ENVIRONMENT_PASSWORD: Final = "environment-mule-socket"
USERS_PASSWORD: Final = "users-pony-adapter"
SPARK_PASSWORD: Final = "spark-zebra-plug"
SECRETS: Final = (
    TARGET_PASSWORD,
    SOURCE_PASSWORD,
    WRONG_PASSWORD,
    ENVIRONMENT_PASSWORD,
    USERS_PASSWORD,
    SPARK_PASSWORD,
)
PROVIDER: Final = "org.apache.kafka.common.config.provider"
EXTENSION: Final = "org.apache.kafka.connect.rest.basic.auth.extension"
GETS: Final = (
    "good",
    "good/config",
    "good/tasks",
    "good/status",
    "good/tasks/0/status",
    "good/offsets",
    "good/topics",
    "wrong/status",
)
UI_PAGES: Final = ("jobs", "stages", "environment", "executors", "SQL", "StreamingQuery", "api/v1/applications")


def secrets_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Source and target that want a login."""
    source = LocalCluster("shy-source", listeners=["SASL_PLAINTEXT"], users={"copier": SOURCE_PASSWORD})
    target = LocalCluster("shy-target", listeners=["SASL_PLAINTEXT"], users={"worker": TARGET_PASSWORD})
    with started(source, target):
        source.create_topic("orders")
        yield source, target


@pytest.fixture(scope="module")
def shy(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Product, Path]]:
    """A worker with secrets wherever there may be some, that says all it can, and Spark's pages; its TMPDIR."""
    directory = tmp_path_factory.mktemp("shy")
    temporary = directory / "tmp"
    temporary.mkdir()
    (directory / "users").write_text(f"admin: {USERS_PASSWORD}\n")
    (directory / "secrets").write_text(f"source={SOURCE_PASSWORD}\ntarget={TARGET_PASSWORD}\n")
    jaas = directory / "jaas.conf"
    jaas.write_text(f'KafkaConnect {{ {EXTENSION}.PropertyFileLoginModule required file="{directory}/users"; }};')
    properties = {
        "config.providers": "file,env",
        "config.providers.file.class": f"{PROVIDER}.FileConfigProvider",
        "config.providers.env.class": f"{PROVIDER}.EnvVarConfigProvider",
        "rest.extension.classes": f"{EXTENSION}.BasicAuthSecurityRestExtension",
        "spark.ui.enabled": "true",
        "spark.ui.port": str(free_port()),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{temporary}",
        "spark.eventLog.compress": "false",
        "spark.mine.password": SPARK_PASSWORD,
    }
    environment = {
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}",
        "MIRROR_CONNECT_LOG_LEVEL": "DEBUG",
        "TMPDIR": str(temporary),
        "KEY_PASSWORD": ENVIRONMENT_PASSWORD,
    }
    product = Product(clusters[1], group="shy", properties=properties, environment=environment)
    product.rest.auth = httpx.BasicAuth("admin", USERS_PASSWORD)
    with product:
        yield product, directory


@pytest.fixture(scope="module")
def good(clusters: tuple[LocalCluster, LocalCluster], shy: tuple[Product, Path]) -> dict[str, str]:
    """A config whose secrets are references."""
    config = mirror_config(*clusters, "orders", source_cluster_ssl_key_password="${env:KEY_PASSWORD}")
    for key, password in (("source", SOURCE_PASSWORD), ("target", TARGET_PASSWORD)):
        login = f"{key}.cluster.sasl.jaas.config"
        config[login] = config[login].replace(password, f"${{file:{shy[1]}/secrets:{key}}}")
    return config


# One line for each mistake.


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b'{"connector.class": ', ("not valid JSON", "line 1, column"), id="cut_off"),
        pytest.param(f'{{"a.password": "{WRONG_PASSWORD}" x}}'.encode(), ("not valid JSON",), id="stray_letter"),
        pytest.param(b"", ("has no body",), id="empty"),
        pytest.param(b"[1]", ("must be a JSON object", "an array"), id="array"),
        pytest.param(b'{"topics": ["a"]}', ("'topics'", "an array"), id="list_as_a_value"),
        pytest.param(b"{}", ("contains no connector type",), id="no_class"),
        pytest.param(b'{"connector.class": "org.example.Sink"}', ("org.example.Sink",), id="unknown_class"),
        pytest.param(b'{"connector.class": "MirrorSourceConnector"}', ("source.cluster.alias",), id="no_alias"),
    ],
)
def test_a_bad_config_is_answered_with_what_is_wrong(
    shy: tuple[Product, Path], body: bytes, words: tuple[str, ...]
) -> None:
    answer = shy[0].rest.put("/connectors/bad/config", content=body, headers={"Content-Type": "application/json"})
    said: dict[str, Any] = answer.json()
    assert (answer.status_code, said["error_code"]) == (400, 400)
    assert [word for word in words if word not in said["message"]] == [], said["message"]
    assert secrets_in(answer.text) == []
    assert "Traceback" not in answer.text


def test_a_wrong_value_of_a_secret_setting_is_not_quoted(shy: tuple[Product, Path], good: dict[str, str]) -> None:
    broken = good | {"source.cluster.sasl.jaas.config": f"password={WRONG_PASSWORD}", "tasks.max": "many"}
    for path in ("/connectors/bad/config", "/connector-plugins/MirrorSourceConnector/config/validate"):
        answer = shy[0].rest.put(path, json=broken)
        assert answer.status_code in (200, 400)
        assert "tasks.max" in answer.text
        assert (
            secrets_in(answer.text.replace(f"password={WRONG_PASSWORD}", "") if "validate" in path else answer.text)
            == []
        )


def test_a_users_password_is_in_no_answer_and_a_wrong_one_is_refused(shy: tuple[Product, Path]) -> None:
    answer = shy[0].rest.get("/connectors", auth=("admin", WRONG_PASSWORD))
    assert (answer.status_code, secrets_in(answer.text + str(answer.headers))) == (401, [])


# No password anywhere.


@pytest.fixture(scope="module")
def busy(clusters: tuple[LocalCluster, LocalCluster], shy: tuple[Product, Path], good: dict[str, str]) -> Product:
    """The worker after a good connector has copied, one with a wrong password has failed, and a task was killed."""
    product, _ = shy
    assert product.rest.put("/admin/loggers/root", json={"level": "TRACE"}).status_code == httpx.codes.OK
    product.put("good", good)
    product.put("wrong", {n: v.replace(f"${{file:{shy[1]}/secrets:source}}", WRONG_PASSWORD) for n, v in good.items()})
    product.wait_states("wrong", ["FAILED"])
    product.wait_running("good")
    with Writer(clusters[0], "orders", 1, 500) as writer:
        wait_ends(clusters[1], "A.orders", {0: 100})
        product.kill(TASK)
        time.sleep(1.0)
    wait_ends(clusters[1], "A.orders", writer.counts)
    product.wait_running("good")
    return product


def test_no_password_is_in_the_log_at_any_level(busy: Product) -> None:
    log = busy.log_text()
    assert "DEBUG" in log
    assert secrets_in(log) == []


def test_no_password_is_in_a_trace_or_status(busy: Product) -> None:
    trace = busy.status("wrong")["connector"]["trace"]
    assert "refused the credentials" in trace.splitlines()[0]
    answers = [busy.rest.get(f"/connectors/{path}").raise_for_status().text for path in GETS]
    assert secrets_in("".join(answers)) == []


def test_no_password_is_in_the_answer_to_a_config(busy: Product, good: dict[str, str]) -> None:
    answers = [
        busy.rest.put("/connector-plugins/MirrorSourceConnector/config/validate", json=good),
        busy.rest.patch("/connectors/good/config", json={}),
        busy.rest.put(
            "/connectors/good/config", json=good | {"connector.class": good["source.cluster.ssl.key.password"]}
        ),
        busy.rest.put("/connectors/good/config", json=good | {"tasks.max": good["source.cluster.ssl.key.password"]}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 400, 400]
    assert [secrets_in(answer.text) for answer in answers] == [[]] * 4
    # A validation doesn't list it, as there is nothing wrong with it.
    assert [good["source.cluster.ssl.key.password"] in answer.text for answer in answers] == [False, True, True, True]


def test_no_password_is_in_arguments_or_environment_of_a_process_that_was_started(busy: Product) -> None:
    # The task may just be starting with the config of the test before.
    wait_for_state(lambda: all(busy.parts()[part] for part in (DRIVER, JVM, DAEMON, TASK)), "each part is there")
    found = set()
    for part, processes in busy.parts().items():
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):  # one that has just ended
                shown = [*process.cmdline(), *(process.environ().items() if part != WORKER else ())]
                found |= {(part, secret) for secret in secrets_in(str(shown))}
    assert found == set()


def test_no_password_is_on_a_page_of_spark(busy: Product) -> None:
    pages = f"http://127.0.0.1:{busy.properties['spark.ui.port']}"
    with httpx.Client(base_url=pages, timeout=60, follow_redirects=True) as rest:
        texts = [rest.get(f"/{page}/").raise_for_status().text for page in UI_PAGES]
        application = rest.get("/api/v1/applications").json()[0]["id"]
        texts += [
            rest.get(f"/api/v1/applications/{application}/{what}").text for what in ("environment", "sql", "jobs")
        ]
    assert "spark.mine.password" in "".join(texts)
    assert secrets_in("".join(texts)) == []


def test_no_password_is_in_a_file_that_spark_writes(busy: Product, shy: tuple[Product, Path]) -> None:
    def files() -> dict[Path, str]:
        found = {}
        for folder, _, names in os.walk(shy[1] / "tmp"):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # Spark renames and removes files all the time
                    path = Path(folder, name)
                    found[path] = path.read_text(errors="replace")
        return found

    wait_for_state(lambda: any("SparkListener" in text for text in files().values()), "an event log")
    found = {path.name: secrets_in(text) for path, text in files().items()}
    assert {name: secrets for name, secrets in found.items() if secrets} == {}
