"""An mm2.properties file: each of its properties is judged as the dedicated mode does, and its flows can be verified."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import javaproperties
import pytest

from mirror_connect.app.config.properties import read_properties
from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.app.dedicated.findings import RefusedFile
from mirror_connect.app.dedicated.mm2_file import read_mm2_config
from mirror_connect.check.judgement import Verdict
from mirror_connect.check.mm2_judge import Mm2File
from mirror_connect.check.report import Report
from tests.paths import ROOT

FILES = sorted((ROOT / "tests" / "fixtures" / "check").glob("*.mm2.properties"))
FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
emit.heartbeats.enabled = false
"""


# Not found by judging: each process of `make test` would do that before its first test.
WITH_REFUSED = ("geo-active-active.mm2.properties", "guide-separator.mm2.properties")


def _judged(tmp_path: Path, more: str = "") -> dict[str, Verdict]:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + more)
    return {each.name: each.verdict for each in Mm2File(path).judge()}


def _refused_names(path: Path) -> set[str]:
    return {each.name for each in Mm2File(path).judge() if each.verdict is Verdict.REFUSED}


def _written(path: Path, properties: dict[str, str]) -> Path:
    path.write_text(javaproperties.dumps(properties), "iso-8859-1")
    return path


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_dedicated_mode_refuses_each_line_that_is_called_refused_and_takes_the_rest(
    path: Path, tmp_path: Path
) -> None:
    given = read_properties(path)
    refused = _refused_names(path)
    assert bool(refused) == (path.name in WITH_REFUSED)
    taken = {name: value for name, value in given.items() if name not in refused}
    for flow in read_mm2_config(_written(tmp_path / "rest.properties", taken)).flows:
        worker_config(flow.worker)
    for name in refused:
        alone = _written(tmp_path / "alone.properties", {**taken, name: given[name]})
        with pytest.raises(RefusedFile) as caught:
            read_mm2_config(alone)
        assert {finding.name for finding in caught.value.findings} == {name}


@pytest.mark.parametrize("path", [each for each in FILES if each.name in WITH_REFUSED], ids=lambda path: path.name)
def test_the_process_of_the_dedicated_mode_ends_with_the_lines_that_are_called_refused(path: Path) -> None:
    lines = {Mm2File(path).located.lines[name] for name in _refused_names(path)}
    command = [sys.executable, "-m", "mirror_connect.app.dedicated", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert set(map(int, re.findall(rf"{re.escape(str(path))}:(\d+): [^\n]*", _errors(done.stderr)))) == lines


def _errors(said: str) -> str:
    """Without the log, which has the warnings."""
    return "\n".join(line for line in said.splitlines() if not line.startswith("["))


def test_a_plain_file_is_the_same(tmp_path: Path) -> None:
    assert set(_judged(tmp_path, "A->B.topics = orders\ntasks.max = 2\n").values()) == {Verdict.SAME}


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("A->C.enabled = true", Verdict.REFUSED),
        ("A->B.topics = (", Verdict.REFUSED),
        ("tasks.max = many", Verdict.REFUSED),
        ("B.session.timeout.ms = many", Verdict.REFUSED),
        ("B.producer.acks = maybe", Verdict.REFUSED),
        ("A.security.protocol = SASL_SSL", Verdict.REFUSED),
        ("config.providers.x.class = no.Such", Verdict.SAME),
        ("emit.heartbeat.enabled = true", Verdict.DIFFERENT),
        ("B.producer.compression.type = zstd", Verdict.DIFFERENT),
        ("B.offset.flush.interval.ms = 1000", Verdict.DIFFERENT),
        ("plugin.path = /jars", Verdict.DIFFERENT),
        ("B.producer.max.request.size = 1000000", Verdict.SAME),
        ("A.consumer.fetch.min.bytes = 10", Verdict.SAME),
        ("listeners = http://:8083", Verdict.SAME),
    ],
)
def test_lines(tmp_path: Path, line: str, verdict: Verdict) -> None:
    found = _judged(tmp_path, f"{line}\n")
    name = line.partition(" = ")[0]
    # A wrong login is told where it is not complete.
    name = name if name in found and found[name] is verdict else "A.sasl.mechanism"
    assert found[name] is verdict


def test_a_file_without_what_it_needs_is_refused_without_a_line(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("A->B.enabled = true\n")
    (refused,) = [each for each in Mm2File(path).judge() if each.verdict is Verdict.REFUSED]
    assert refused.name not in ("A->B.enabled",)
    assert refused.text
    assert Mm2File(path).links() == []


def test_an_unknown_provider_is_refused_and_its_values_are_not_judged(tmp_path: Path) -> None:
    more = "config.providers = aws\nconfig.providers.aws.class = no.Such\nB.group.id = ${aws:x:y}\ntasks.max = many\n"
    found = _judged(tmp_path, more)
    assert found["config.providers.aws.class"] is Verdict.REFUSED
    assert found["B.group.id"] is Verdict.NOT_JUDGED
    assert found["tasks.max"] is Verdict.REFUSED
    assert _judged(tmp_path, more.replace("${aws:x:y}", "g"))["config.providers.aws.class"] is Verdict.REFUSED


def test_a_flow_whose_policy_is_refused_has_no_command(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(f"{FILE}replication.policy.class = com.acme.Policy\n")
    (link,) = Mm2File(path).links()
    assert link.impossible
    assert Report("f", "mm2", [], [link]).as_json()["links"] == [
        {"name": "A->B", "verify": None, "first": link.impossible}
    ]


def test_an_enabled_flow_has_its_command_and_its_clusters_their_client_properties(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    (tmp_path / "secrets").write_text("password=hush\n")
    path.write_text(
        f"{FILE}A->B.topics = orders.*\nA->B.replication.policy.separator = _\nB->A.emit.heartbeats.enabled = true\n"
        "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = PLAIN\nconfig.providers = f\n"
        "config.providers.f.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
        "B.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="u" password="${{f:{tmp_path}/secrets:password}}";\n'
    )
    file = Mm2File(path)
    (link,) = file.links()
    assert link.name == "A->B"
    assert link.command() == (
        "mirror-connect verify --source-alias A --target-alias B --topics 'orders.*' --separator _ "
        f"--offsets-topic mm2-offsets.A.internal --source <(mirror-connect check {path} --client A) "
        f"--target <(mirror-connect check {path} --client B)"
    )
    assert file.client("A") == {"bootstrap.servers": "a:1"}
    client = file.client("B")
    assert client is not None
    assert 'password="hush"' in client["sasl.jaas.config"]
    assert file.client("C") is None
    assert {each.verdict for each in file.judge()} == {Verdict.SAME}


@pytest.mark.parametrize(
    ("more", "name", "verdict"),
    [
        ("B.security.protocol=SSL\nB.ssl.truststore.location=/nowhere\n", "B.ssl.truststore.location", "not judged"),
        ("listeners=.*\n", "listeners", "refused"),
        ("listeners=https://:1\n", "listeners.https.ssl.keystore.location", "refused"),
        ("listeners=https://:1\nssl.keystore.location=/nowhere\n", "ssl.keystore.location", "not judged"),
        ("listeners=http://:1\n", "listeners", "same"),
        ("B.connector.client.config.override.policy=Foo\n", "B.connector.client.config.override.policy", "refused"),
        ("log.format=json\n", "log.format", "different"),
        ("log.format=xml\n", "log.format", "refused"),
    ],
)
def test_what_only_a_start_finds_is_judged_too(tmp_path: Path, more: str, name: str, verdict: str) -> None:
    assert _judged(tmp_path, more)[name] == verdict


PREDICATE = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"
TRANSFORMS = """\
A->B.transforms = route
A->B.transforms.route.type = org.apache.kafka.connect.transforms.RegexRouter
A->B.transforms.route.regex = (.*)orders
A->B.transforms.route.replacement = $1bestellungen
A->B.spark.transform.sql = SELECT * FROM records WHERE offset > 3
A->B.spark.transform.secret.pepper = x
"""


def test_the_transformations_of_a_flow_are_those_of_its_source_connector(tmp_path: Path) -> None:
    assert set(_judged(tmp_path, TRANSFORMS).values()) == {Verdict.SAME, Verdict.DIFFERENT}
    # The other connectors have them in their configs, too, as with MirrorMaker.
    (flow,) = read_mm2_config(tmp_path / "mm2.properties").flows
    assert {name for name, config in flow.connectors.items() if "transforms.route.type" in config} == {*flow.connectors}


LETTERS = "errors.deadletterqueue.topic.name"
SET_TOPIC = f"Set A->B.{LETTERS}, or leave it out."


@pytest.mark.parametrize(
    ("more", "name", "text", "instead"),
    [
        pytest.param(
            f"{TRANSFORMS}A->B.{LETTERS} = letters\n",
            f"A->B.{LETTERS}",
            "It has no effect, as A->B.errors.tolerance is not all.",
            "Set A->B.errors.tolerance=all, or leave it out.",
            id="a_tolerance_of_none",
        ),
        pytest.param(
            f"errors.tolerance = all\nA->B.{LETTERS} = letters\n",
            f"A->B.{LETTERS}",
            "It has no effect, as A->B has no transformations.",
            "Leave it out.",
            id="no_transformations",
        ),
        pytest.param(
            f"{TRANSFORMS}errors.tolerance = all\nerrors.deadletterqueue.context.headers.enable = true\n",
            "errors.deadletterqueue.context.headers.enable",
            f"It has no effect, as A->B.{LETTERS} is not set.",
            SET_TOPIC,
            id="no_topic_at_the_top_level",
        ),
        pytest.param(
            f"{TRANSFORMS}A->B.transforms.gone.type = x\n",
            "A->B.transforms.gone.type",
            "A->B.transforms does not name gone, so it has no effect.",
            "Add gone to A->B.transforms, or leave it out.",
            id="an_alias_that_is_not_listed",
        ),
        pytest.param(
            f"{TRANSFORMS}A->B.transforms.route.replacment = x\n",
            "A->B.transforms.route.replacment",
            "Unknown, so it has no effect.",
            "Did you mean A->B.transforms.route.replacement?",
            id="a_misspelt_setting",
        ),
        pytest.param(
            f"{TRANSFORMS}A->B.predicates = p\nA->B.predicates.p.type = {PREDICATE}\n",
            "A->B.predicates.p.type",
            "No transformation of A->B names predicate p, so it has no effect.",
            "Write A->B.transforms.….predicate=p, or leave it out.",
            id="a_predicate_without_a_transformation",
        ),
    ],
)
def test_a_setting_of_a_flow_without_effect_is_told_with_the_flow(
    tmp_path: Path, more: str, name: str, text: str, instead: str
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + more)
    (found,) = [each for each in Mm2File(path).judge() if each.name == name]
    assert (found.verdict, found.text, found.instead) == (Verdict.DIFFERENT, text, instead)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        pytest.param(TRANSFORMS, False, id="one_flow_uses_them"),
        pytest.param("", True, id="none_does"),
        # What a flow lacks that does not run counts neither way.
        pytest.param(f"{TRANSFORMS}B->A.enabled = false\n", False, id="the_other_one_does_not_run"),
    ],
)
def test_letters_of_the_top_level_are_idle_if_no_enabled_flow_uses_them(tmp_path: Path, more: str, told: bool) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(f"{FILE}B->A.enabled = true\nerrors.tolerance = all\n{LETTERS} = letters\n{more}")
    (found,) = [each for each in Mm2File(path).judge() if each.name == LETTERS]
    assert ("no effect" in found.text) is told


def test_a_mistake_in_the_transformations_of_a_flow_is_told_once(tmp_path: Path) -> None:
    judged = _judged(tmp_path, TRANSFORMS.replace("RegexRouter", "TimestampRouter"))
    assert [name for name, verdict in judged.items() if verdict is Verdict.REFUSED] == ["A->B.transforms"]
