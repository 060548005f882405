"""What `mirror-connect check` says of a worker's or a dedicated MirrorMaker's file is what their start does with it.

Each such file of tests/fixtures/check is given to a process. What is refused is taken out until the process is up. By then
its log has warned of what has no effect. test_check_truth.py does the same with connectors.

Brokers, passwords, key stores and what config providers hold are replaced by those of the test. Kerberos alone is left
out: once its mechanism has been refused, the worker gets no login.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import javaproperties
import pytest

from deploy.local import Listener, LocalCluster, start_all
from mirror_connect.app.config.config_providers import has_reference
from mirror_connect.app.config.properties import read_properties
from mirror_connect.check.clients import COPIED
from mirror_connect.check.document import WORKER
from mirror_connect.check.documents import read_documents
from mirror_connect.check.judgement import Judgement, Verdict
from mirror_connect.check.mm2_judge import Mm2File
from mirror_connect.check.worker_judge import judge_worker
from tests.brokers import UNHURRIED
from tests.e2e.dedicated import QUICK, Dedicated
from tests.e2e.product import BYTES, PATIENCE_S, Product
from tests.paths import ROOT
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]
FIXTURES: Final = ROOT / "tests" / "fixtures" / "check"
USER, PASSWORD = "KEY", "hush-hush"
WRONG_SETTINGS: Final = 2
NO_LOGIN: Final = str(Listener.PLAINTEXT)
BASIC_AUTH: Final = "org.apache.kafka.connect.rest.basic.auth.extension."
_UNREAD: Final = re.compile(r"These \w+ properties (?:are unknown and )?have no effect(?: here)?: (.*) \([\w.]+\)$")
_ALONE: Final = re.compile(
    r"WARNING (\S+) (?:has no effect: the worker needs|is taken for a setting of the topic|names \S+ but)"
)
_FINDING: Final = re.compile(r"connect\.properties:(\d+): ")


@dataclass(frozen=True)
class Clusters:
    """The ends of the files' flows. The target has every login that the files have, but for Kerberos."""

    source: LocalCluster
    target: LocalCluster


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """Of their own: flows that copy all topics would copy those of other tests."""
    kinds = (Listener.PLAINTEXT, Listener.SASL_PLAINTEXT, Listener.SASL_SSL)
    logins = ("PLAIN", "SCRAM-SHA-512")
    with ExitStack() as stack:
        source = LocalCluster("files-source", properties=UNHURRIED)
        stack.callback(source.close)
        target = LocalCluster("files", listeners=kinds, users={USER: PASSWORD}, mechanisms=logins, properties=UNHURRIED)
        stack.callback(target.close)
        start_all(source, target)
        yield Clusters(source, target)


# Whose settings are of the same kinds as others': each costs a start or more.
ALIKE: Final = {
    "confluent-cloud-worker.properties",
    "confluent-worker.properties",
    "debezium-worker.properties",
    "demo-worker.properties",
    "exactly-once-worker.properties",
    "msk-worker.properties",
    "strimzi-connect.yaml",
    "strimzi-worker.properties",
    "strimzi-mirror-maker.yaml",
    "cloud-migration.mm2.properties",
    "geo-exactly-once.mm2.properties",
    "guide-separator.mm2.properties",
}


def _marks(path: Path) -> Any:
    return pytest.mark.long if path.name in ALIKE else ()


def _workers() -> list[Any]:
    files = sorted([*FIXTURES.glob("*worker*.properties"), *FIXTURES.glob("strimzi*.yaml")])
    found = ((path, each) for path in files for each in read_documents(path) if each.kind == WORKER)
    return [pytest.param({**each.defaults, **each.texts()}, id=path.name, marks=_marks(path)) for path, each in found]


def _mm2_files() -> list[Any]:
    return [pytest.param(path, id=path.name, marks=_marks(path)) for path in sorted(FIXTURES.glob("*.mm2.properties"))]


@pytest.mark.parametrize("given", _workers())
def test_a_worker_starts_without_what_check_calls_refused_and_warns_of_what_has_no_effect(
    given: dict[str, str], clusters: Clusters, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    worker = Product(clusters.target, group=topic_name("files"), environment=_login_of_rest(tmp_path))
    worker.properties = _for_worker(given, worker, clusters.target)
    judged = judge_worker(worker.properties)
    assert _names(judged, Verdict.NOT_JUDGED) == set()
    # What the test replaces hides nothing.
    assert _names(judged, Verdict.REFUSED) == _names(judge_worker(given), Verdict.REFUSED)
    try:
        assert _refused_until_up(worker, "The worker is up") == _names(judged, Verdict.REFUSED)
        assert _warned_by_worker(worker) == _without_effect(judge_worker(worker.properties))
        worker.kill()
    finally:
        worker.close()


@pytest.mark.parametrize("path", _mm2_files())
def test_the_dedicated_mode_starts_without_what_check_calls_refused_and_warns_of_what_has_no_effect(
    path: Path, clusters: Clusters, tmp_path: Path
) -> None:
    node = Dedicated(clusters.target, {}, internal_rest=False, name="files")
    node.properties = _for_dedicated(read_properties(path), node, clusters)
    file = tmp_path / path.name
    file.write_text(javaproperties.dumps(node.properties), "iso-8859-1")
    judged = Mm2File(file).judge()
    assert _names(judged, Verdict.NOT_JUDGED) == set()
    assert _names(judged, Verdict.REFUSED) == _names(Mm2File(path).judge(), Verdict.REFUSED)
    try:
        assert _refused_until_up(node, "MirrorMaker is up with") == _names(judged, Verdict.REFUSED)
        file.write_text(javaproperties.dumps(node.properties), "iso-8859-1")
        assert _found(node, "WARNING") == _without_effect(Mm2File(file).judge())
        node.kill()
    finally:
        node.close()


def _for_worker(given: Mapping[str, str], worker: Product, cluster: LocalCluster) -> dict[str, str]:
    found = {name: value for name, value in given.items() if not has_reference(value)}
    found |= {name: f"{worker.group}-{name}" for name in found if name.endswith(".storage.topic")}
    if "group.id" in found:
        found["group.id"] = worker.group
    _give_room(found, ("config", "offset", "status"))
    _give_files(found, worker, cluster)
    login = _login(cluster, found, "")
    # A login that a provider holds has what the file lacks of it.
    lacking = login.keys() & (given.keys() - found.keys())
    return found | {name: value for name, value in login.items() if name in lacking or not name.startswith("sasl.")}


def _for_dedicated(given: Mapping[str, str], node: Product, clusters: Clusters) -> dict[str, str]:
    found = {**given, **QUICK}
    first = given["clusters"].partition(",")[0]
    for name in given:
        if name.endswith(".bootstrap.servers"):
            prefix = name.removesuffix("bootstrap.servers")
            found |= _login(clusters.source if prefix == f"{first}." else clusters.target, given, prefix)
    _give_files(found, node, clusters.target)
    return found


def _give_room(found: dict[str, str], topics: Sequence[str]) -> None:
    """One broker has no room for copies; -1 is the broker's own number."""
    for name in (f"{kind}.storage.replication.factor" for kind in topics):
        if found.get(name) != "-1":
            found[name] = "1"


def _give_files(found: dict[str, str], process: Product, cluster: LocalCluster) -> None:
    """Ports, files and passwords of this machine for those of the file's."""
    scheme = found.get("listeners", "http").partition(":")[0]
    if "listeners" in found or not isinstance(process, Dedicated):
        found["listeners"] = f"{scheme}://127.0.0.1:{process.port}"
    assert cluster.tls is not None
    for name, value in list(found.items()):
        if name.endswith(".allowed.paths"):
            found[name] = str(process.directory)
        elif name.endswith("keystore.location"):
            found[name] = str(cluster.tls.client.pkcs12)
        elif name.endswith("keystore.password"):
            found[name] = cluster.tls.password
        elif name.endswith("sasl.jaas.config"):
            found[name] = re.sub(r'password="[^"]*"', f'password="{PASSWORD}"', value)


def _login(cluster: LocalCluster, given: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The client properties of the file's kind of login."""
    protocol = given.get(f"{prefix}security.protocol", NO_LOGIN)
    mechanism = given.get(f"{prefix}sasl.mechanism")
    known = mechanism if mechanism in ("PLAIN", "SCRAM-SHA-512") else None
    found = cluster.client_properties(listener=protocol, mechanism=known)
    return {f"{prefix}{name}": value for name, value in found.items() if name != "sasl.mechanism"}


def _login_of_rest(directory: Path) -> dict[str, str]:
    """The environment of a worker whose REST interface asks for passwords."""
    users, logins = directory / "users.properties", directory / "jaas.conf"
    users.write_text("admin: hush\n")
    logins.write_text(f'KafkaConnect {{\n  {BASIC_AUTH}PropertyFileLoginModule required\n  file="{users}";\n}};\n')
    return {"KAFKA_OPTS": f"-Djava.security.auth.login.config={logins}"}


def _names(judged: Sequence[Judgement], verdict: Verdict) -> set[str]:
    return {each.name for each in judged if each.verdict is verdict}


def _without_effect(judged: Sequence[Judgement]) -> set[str]:
    """What the start has to warn of. What has no effect on copies is named by the task that copies."""
    return {
        each.name
        for each in judged
        if each.verdict is Verdict.DIFFERENT
        and each.text != COPIED
        and (each.unread or "no effect" in each.text or "taken for a setting of the topic" in each.text)
    }


def _refused_until_up(process: Product, up: str) -> set[str]:
    """What the start refuses, until it is up without that. `up`: what the log says then."""
    refused: set[str] = set()
    while True:
        process.log_file.unlink(missing_ok=True)
        process.launch()

        def settled() -> bool:
            return process.process.poll() is not None or up in process.log_text()

        wait_for_state(settled, "the process is up or has ended", PATIENCE_S)
        if process.process.poll() is None:
            return refused
        assert process.wait_ended() == WRONG_SETTINGS, process.log_tail()
        new = _found(process, "mirror-connect: ") or _named(process)
        assert new, process.log_tail()
        refused |= new
        left = {name: value for name, value in process.properties.items() if name not in new}
        process.properties = left | {name: BYTES for name in new if name.endswith(".converter")}
        if any(name.startswith("sasl.") for name in new):
            process.properties |= _login(process.cluster, {}, "")


def _found(process: Product, kind: str) -> set[str]:
    """The properties at whose lines the dedicated mode has found something."""
    names = list(process.properties)
    lines = [line for line in process.log_text().splitlines() if kind in line]
    return {names[int(found[1]) - 1] for line in lines if (found := _FINDING.search(line))}


def _named(process: Product) -> set[str]:
    """The property in a worker's last line, which quotes values, too: the first one that is named."""
    (line,) = [each for each in process.log_text().splitlines() if each.startswith("mirror-connect: ")]
    words = re.split(r"[^\w.]+", line)
    return {next(word for word in words if word.rstrip(".") in process.properties)}


def _warned_by_worker(worker: Product) -> set[str]:
    """The properties of which the log says that they have no effect, or not the one that was meant."""
    text = worker.log_text()
    # Likely names are in brackets.
    lists = (re.sub(r" \([^)]*\)", "", found[1]) for line in text.splitlines() if (found := _UNREAD.search(line)))
    return {name for each in lists for name in each.split(", ")} | set(_ALONE.findall(text))
