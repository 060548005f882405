"""A mistake in an mm2.properties file is refused with its line, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mirror_connect.app.config.config_providers import MEND
from mirror_connect.app.dedicated.findings import FindingCode, RefusedFile
from mirror_connect.app.dedicated.mm2_file import findings, read_mm2_config
from tests.unit.app.dedicated.mm2_files import BROKERS, IDENTITY, ONE_FLOW, shown, written


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("topics=x\n", "ERROR : clusters is missing; add clusters = A, B", id="no_clusters"),
        pytest.param(
            "east.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\n",
            "ERROR : clusters is missing; add clusters = east, west",
            id="no_clusters_and_their_brokers",
        ),
        pytest.param(
            "clusters=\n", "ERROR :1: clusters=: there is no cluster in it; name two clusters or more", id="empty"
        ),
        pytest.param(
            "clusters=A,,B\n",
            "ERROR :1: clusters=A,,B: an entry is empty; take out the comma that has nothing beside it",
            id="an_empty_cluster",
        ),
        pytest.param(
            "clusters=A, B # two\n",
            "ERROR :1: clusters=A, B # two: a # behind a value begins no comment, so a cluster is named “B # two”; "
            "put the comment on a line of its own",
            id="a_comment_behind_the_clusters",
        ),
        pytest.param(
            "# nothing\n\n",
            "ERROR : there are no properties in the file; "
            "write clusters = A, B, their bootstrap.servers, and A->B.enabled = true",
            id="a_blank_file",
        ),
        pytest.param(
            "clusters=A,B\nA.bootstrap.servers=a:1\nA->B.enabled=true\n",
            "ERROR :3: A->B.enabled=true: B.bootstrap.servers is missing, and the flow A->B needs it; "
            "write B.bootstrap.servers = HOST:PORT",
            id="no_brokers",
        ),
        pytest.param(
            "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=\nA->B.enabled=true\n",
            "ERROR :3: B.bootstrap.servers=: B.bootstrap.servers is empty, and the flow A->B needs it; "
            "write B.bootstrap.servers = HOST:PORT",
            id="empty_brokers",
        ),
        pytest.param(
            "clusters=us-west,us-east\nus-west.bootstrap.servers=a:1\nUs-east.bootstrap.servers=b:1\n"
            "us-west->us-east.enabled=true\n",
            "ERROR :4: us-west->us-east.enabled=true: us-east.bootstrap.servers is missing, and the flow us-west->us-east "
            "needs it; rename Us-east.bootstrap.servers on line 3",
            id="brokers_of_a_misspelt_cluster",
        ),
        pytest.param(
            f"clusters=A,B\n{BROKERS}emit.heartbeats.enabled=false\n",
            "ERROR :1: clusters=A,B: no flow is enabled, and no heartbeats; "
            "set A->B.enabled = true, with the source in front of the arrow",
            id="nothing_to_run",
        ),
        pytest.param(
            f"clusters=A,B\n{BROKERS}A->B.enabled=true \nemit.heartbeats.enabled=false\n",
            "ERROR :4: A->B.enabled=true : no flow is enabled, and no heartbeats: there are blanks around true; "
            "take the blanks out",
            id="a_blank_behind_true",
        ),
        pytest.param(
            "clusters=a b,C\na\\ b.bootstrap.servers=a:1\nC.bootstrap.servers=c:1\na\\ b->C.enabled=true\n",
            "ERROR :1: clusters=a b,C: the cluster “a b” would make the topic mm2-configs.a b.internal, but names of topics "
            "have letters, digits, dots, _ and - only, at most 249 of them; give “a b” another name",
            id="a_blank_in_a_clusters_name",
        ),
    ],
)
def test_a_file_that_names_nothing_to_run_is_refused_with_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert shown(tmp_path, text) == [line] or line in shown(tmp_path, text)


NAMES = "names of topics have letters, digits, dots, _ and - only, at most 249 of them"


@pytest.mark.parametrize(
    ("added", "line"),
    [
        pytest.param(
            "A->BB.topics=x\n",
            "ERROR :5: A->BB.topics=x: the cluster BB is not in clusters; clusters has A, B",
            id="an_unknown_cluster",
        ),
        pytest.param(
            "A->A.enabled=true\n",
            "ERROR :5: A->A.enabled=true: a cluster cannot be copied to itself; name two different clusters",
            id="a_flow_to_itself",
        ),
        pytest.param(
            "A\xe2\x86\x92B.enabled=true\n",
            "ERROR :5: A\xe2\x86\x92B.enabled=true: an arrow makes no flow here, only the two characters -> do; "
            "write SOURCE->TARGET.PROPERTY",
            id="an_arrow_as_in_a_guide",
        ),
        pytest.param(
            "topics=orders,a(b\n",
            "ERROR :5: topics=orders,a(b: a(b: Not a regular expression: Unclosed group near index 3; "
            "correct the entry: entries are Java's regular expressions",
            id="a_bad_expression",
        ),
        pytest.param(
            "groups = *\n",
            "ERROR :5: groups=*: Not a regular expression: Dangling meta character '*' near index 0; "
            "write .* for all names",
            id="an_asterisk_for_all",
        ),
        pytest.param(
            "A->B.topics=a,b,a\n",
            "ERROR :5: A->B.topics=a,b,a: Configuration 'topics' values must not be duplicated; name each entry once",
            id="an_entry_twice",
        ),
        pytest.param(
            "A->B.sync.topic.acls.enabled=yes\n",
            "ERROR :5: A->B.sync.topic.acls.enabled=yes: Expected value to be either true or false; write true or false",
            id="no_boolean",
        ),
        pytest.param(
            "A->B.spark.transform.lookup.r=/r.csv\nA->B.spark.transform.lookup.r.schema=id INT\n"
            "A->B.spark.transform.sql=SELECT * FROM records\nspark.transform.lookup.allowed.paths=/etc,/r.csv.d\n",
            "ERROR :5: A->B.spark.transform.lookup.r=/r.csv: the worker's file must allow it: "
            "spark.transform.lookup.allowed.paths has /etc, /r.csv.d. Add the file's directory there",
            id="a_lookup_in_no_permitted_directory",
        ),
        pytest.param(
            "tasks.max=many\n",
            "ERROR :5: tasks.max=many: Not a number of type INT; write a whole number",
            id="no_number",
        ),
        pytest.param(
            "B.status.storage.replication.factor=x\n",
            "ERROR :5: B.status.storage.replication.factor=x: Not a number of type SHORT; write a whole number",
            id="no_number_for_a_worker",
        ),
        pytest.param(
            "dedicated.mode.enable.internal.rest=on\n",
            "ERROR :5: dedicated.mode.enable.internal.rest=on: Expected value to be either true or false; "
            "write true or false",
            id="no_boolean_for_the_process",
        ),
        pytest.param(
            "A->B.enabled=true # on\n",
            "ERROR :5: A->B.enabled=true # on: Expected value to be either true or false; "
            "a # behind a value begins no comment: put the comment on a line of its own",
            id="a_comment_behind_a_boolean",
        ),
        pytest.param(
            "rest.extension.classes=a.B\n",
            "ERROR :5: rest.extension.classes=a.B: the only known class is org.apache.kafka.connect.rest.basic.auth."
            "extension.BasicAuthSecurityRestExtension",
            id="an_unknown_extension_of_rest",
        ),
        pytest.param(
            "B.exactly.once.source.support=on\n",
            "ERROR :5: B.exactly.once.source.support=on: String must be one of (case insensitive): DISABLED, ENABLED, "
            "PREPARING",
            id="exactly_once",
        ),
        pytest.param(
            "A.consumer.fetch.max.bytes=lots\n",
            "ERROR :5: A.consumer.fetch.max.bytes=lots: Not a number of type INT",
            id="no_number_for_a_client",
        ),
        pytest.param(
            f"B->A.enabled=true\n{IDENTITY}",
            f"ERROR :6: {IDENTITY.strip()}: with this policy A->B and B->A would copy each record in a circle for ever; "
            "disable one of them, give them lists of different names in topics, or leave the policy out, so that copies "
            "get the prefix of their source",
            id="both_ways_with_the_names_kept",
        ),
        pytest.param(
            "replication.policy.separator=/\n",
            f"ERROR :5: replication.policy.separator=/: it would make the topic A/topic, but {NAMES}; "
            "choose a separator of these, such as - or _",
            id="a_separator_that_no_topic_may_have",
        ),
        pytest.param(
            "B.offset.storage.topic=mm2 offsets\n",
            f"ERROR :5: B.offset.storage.topic=mm2 offsets: {NAMES}; correct the name, or leave it out",
            id="a_name_of_no_topic",
        ),
        pytest.param(
            f"{IDENTITY}B.bootstrap.servers=x:1, a:9092\n",
            "ERROR :6: B.bootstrap.servers=x:1, a:9092: A and B have the same broker a:9092: with this policy each record "
            "would be copied to where it is, for ever; correct the bootstrap.servers of A or B",
            id="a_cluster_copied_to_itself_with_the_names_kept",
        ),
    ],
)
def test_a_mistake_is_refused_with_file_line_property_value_and_remedy(tmp_path: Path, added: str, line: str) -> None:
    errors = [each for each in shown(tmp_path, ONE_FLOW + added) if each.startswith("ERROR")]
    assert errors == [line]


MECHANISM = (
    "it is not set, and Kafka's default GSSAPI is not supported; "
    "it has to be one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
)
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'
JAAS = "it has to be set for sasl.mechanism PLAIN (… required username=… password=…;)"


@pytest.mark.parametrize(
    ("added", "line"),
    [
        ("A.security.protocol=SASL_SSL", f"A.security.protocol=SASL_SSL: it needs A.sasl.mechanism: {MECHANISM}"),
        (
            "B.security.protocol=SASL_SSL\nB.sasl.mechanism=PLAIN",
            f"B.sasl.mechanism=PLAIN: it needs B.sasl.jaas.config: {JAAS}",
        ),
        ("security.protocol=SASL_SSL", f"security.protocol=SASL_SSL: it needs sasl.mechanism: {MECHANISM}"),
        (
            "A.consumer.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN",
            f"A.sasl.mechanism=PLAIN: it needs A.sasl.jaas.config: {JAAS}",
        ),
        (
            "A->B.source.consumer.security.protocol=SASL_SSL",
            f"A->B.source.consumer.security.protocol=SASL_SSL: it needs A.sasl.mechanism: {MECHANISM}",
        ),
        (
            "B.producer.security.protocol=SASL_SSL",
            f"B.producer.security.protocol=SASL_SSL: it needs B.sasl.mechanism: {MECHANISM}",
        ),
        (
            "B.producer.security.protocol=SASL_SSL\nB.producer.sasl.mechanism=PLAIN",
            f"B.producer.sasl.mechanism=PLAIN: it needs B.sasl.jaas.config: {JAAS}",
        ),
        (
            "A->B.producer.override.security.protocol=SASL_SSL",
            f"A->B.producer.override.security.protocol=SASL_SSL: it needs B.sasl.mechanism: {MECHANISM}",
        ),
        (
            "A.producer.security.protocol=SASL_SSL",
            f"A.producer.security.protocol=SASL_SSL: it needs A.sasl.mechanism: {MECHANISM}",
        ),
    ],
)
def test_what_a_login_lacks_is_named_at_the_property_that_asks_for_it(tmp_path: Path, added: str, line: str) -> None:
    number = 5 + added.count("\n")
    assert shown(tmp_path, f"{ONE_FLOW}{added}\n") == [f"ERROR :{number}: {line}"]


@pytest.mark.parametrize(
    "added",
    [
        pytest.param(
            f"B.producer.security.protocol=SASL_SSL\nB.sasl.mechanism=PLAIN\nB.sasl.jaas.config={LOGIN}",
            id="the_cluster_has_the_rest",
        ),
        pytest.param(
            "B.producer.security.protocol=SASL_SSL\nB.producer.sasl.mechanism=PLAIN\n"
            f"A->B.producer.override.sasl.jaas.config={LOGIN}",
            id="an_override_has_the_rest",
        ),
        pytest.param(
            "A.producer.security.protocol=SASL_SSL\noffset-syncs.topic.location=target", id="nothing_is_written_there"
        ),
        pytest.param(
            "A.producer.security.protocol=SASL_SSL\nemit.offset-syncs.enabled=false", id="no_offset_syncs_are_written"
        ),
    ],
)
def test_a_producer_that_has_its_login_or_is_not_used_is_no_mistake(tmp_path: Path, added: str) -> None:
    # The heartbeats of B->A would be written to A.
    lines = shown(tmp_path, f"{ONE_FLOW}B->A.emit.heartbeats.enabled=false\n{added}\n")
    assert [each for each in lines if each.startswith("ERROR")] == []


def test_a_wrong_login_of_a_producer_is_named_without_its_text(tmp_path: Path) -> None:
    login = (
        "B.producer.security.protocol=SASL_SSL\nB.producer.sasl.mechanism=PLAIN\nB.producer.sasl.jaas.config=hunter22\n"
    )
    (line,) = shown(tmp_path, ONE_FLOW + login)
    assert (line.startswith("ERROR :7: B.producer.sasl.jaas.config: "), "hunter22" in line) == (True, False)


@pytest.mark.kafka_test("MirrorMakerConfigTest.testInvalidSecurityProtocol")
@pytest.mark.kafka_test("MirrorMakerConfigTest.testClientInvalidSecurityProtocol")
@pytest.mark.parametrize(
    "name", ["security.protocol", "A.security.protocol", "B.security.protocol", "B.admin.security.protocol"]
)
def test_a_security_protocol_that_does_not_exist_is_refused_where_it_stands(tmp_path: Path, name: str) -> None:
    lines = shown(tmp_path, f"{ONE_FLOW}{name}=abc\n")
    choices = "SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT"
    assert lines == [f"ERROR :5: {name}=abc: String must be one of (case insensitive): {choices}"]


@pytest.mark.kafka_test("MirrorMakerConfigTest.testCaseInsensitiveSecurityProtocol")
def test_a_security_protocol_may_be_in_small_letters(tmp_path: Path) -> None:
    assert shown(tmp_path, f"{ONE_FLOW}security.protocol=ssl\n") == []


def test_an_unknown_cluster_of_the_command_line_is_refused(tmp_path: Path) -> None:
    lines = shown(tmp_path, ONE_FLOW, ["b", "C"])
    assert lines[:2] == [
        "ERROR :1: clusters=A,B: --clusters names b, which is not in clusters; did you mean B? (clusters has A, B)",
        "ERROR :1: clusters=A,B: --clusters names C, which is not in clusters; clusters has A, B",
    ]


def test_an_unreadable_file_is_refused_with_the_systems_reason(tmp_path: Path) -> None:
    with pytest.raises(RefusedFile, match=f"^{re.escape(str(tmp_path))}: Is a directory; give a file"):
        read_mm2_config(tmp_path)
    assert [each.code for each in findings(tmp_path / "none")] == [FindingCode.FILE_UNREADABLE]
    assert findings(tmp_path / "none")[0].remedy == "give a file that this user may read"


def test_a_provider_whose_file_is_missing_is_refused_with_the_line_that_refers_to_it(tmp_path: Path) -> None:
    provider = (
        "config.providers=f\nconfig.providers.f.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    found = findings(written(tmp_path, f"{ONE_FLOW}{provider}A.sasl.jaas.config=${{f:/none:x}}\n"))
    assert [(each.code, each.line, each.value) for each in found] == [(FindingCode.REFERENCE_UNREADABLE, 7, None)]
    assert found[0].shown.endswith(f":7: A.sasl.jaas.config: /none can't be read: there is no such file; {MEND}")
    assert "/none" in found[0].text


def test_all_errors_are_in_the_refusal_and_no_warning(tmp_path: Path) -> None:
    with pytest.raises(RefusedFile) as caught:
        read_mm2_config(written(tmp_path, f"{ONE_FLOW}topics=(\ntasks.max=x\nzzz=1\n"))
    assert [each.line for each in caught.value.findings] == [5, 6]
    assert len(str(caught.value).splitlines()) == 2


def test_no_secret_is_in_a_finding(tmp_path: Path) -> None:
    added = "A.ssl.keystore.passwords=hunter2\nA.sasl.jaas.config=hunter2\nB.zzz.password=hunter2\ndb.secret=hunter2\n"
    lines = shown(tmp_path, f"{ONE_FLOW}{added}A.security.protocol=SASL_SSL\n".replace("passwords", "password"))
    assert lines
    assert "hunter2" not in "".join(lines)


def test_a_missing_file_of_a_provider_hides_no_other_mistake(tmp_path: Path) -> None:
    provider = (
        "config.providers=f\nconfig.providers.f.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    more = "A.sasl.jaas.config=${f:/none:x}\nB.sasl.jaas.config=${f:/none:x}\ntasks.max=${f:/gone:x}\n"
    more += "A.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN\nreplication.factor=two\ntopics=a(\n"
    found = findings(written(tmp_path, f"{ONE_FLOW}{provider}{more}"))
    assert [(each.code, each.line) for each in found] == [
        (FindingCode.REFERENCE_UNREADABLE, 7),
        (FindingCode.REFERENCE_UNREADABLE, 8),
        (FindingCode.REFERENCE_UNREADABLE, 9),
        (FindingCode.VALUE_INVALID, 12),
        (FindingCode.EXPRESSION_INVALID, 13),
    ]


def test_a_value_of_a_provider_is_not_in_a_finding(tmp_path: Path) -> None:
    provider = "config.providers=env\nconfig.providers.env.class="
    provider += "org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    lines = shown(tmp_path, f"{ONE_FLOW}{provider}tasks.max=${{env:MM2_SECRET}}\n")
    assert lines == ["ERROR :7: tasks.max=${env:MM2_SECRET}: Not a number of type INT; write a whole number"]


def test_a_value_of_a_provider_that_only_all_settings_together_refuse_is_not_in_a_finding(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("topic=SeCret77value\n")
    provider = "config.providers=file\nconfig.providers.file.class="
    provider += "org.apache.kafka.common.config.provider.FileConfigProvider\n"
    reference = f"${{file:{tmp_path}/secrets:topic}}"
    topics = "".join(f"{kind}.storage.topic={reference}\n" for kind in ("config", "offset", "status"))
    lines = shown(tmp_path, f"{ONE_FLOW}{provider}{topics}")
    assert [reference in line for line in lines if "different" in line]
    assert "SeCret77value" not in "".join(lines)


@pytest.mark.parametrize(
    ("topics", "refused"),
    [
        (("a,b", "b,c"), True),
        (("a,b", "c,d"), False),
        (("a,b", "c.*"), False),
        (("c1", "c.*"), True),
        ((r"a\..*", r"b\..*"), False),
        (("a.*", "ab.*"), True),
        (("ab?.*", "ac.*"), True),
        ((".*", "b"), True),
        (("(a|b)", "c"), False),
        (("x|a", "a.*"), True),
    ],
)
def test_flows_in_a_circle_may_keep_names_if_no_topic_is_of_both(
    tmp_path: Path, topics: tuple[str, str], refused: bool
) -> None:
    text = f"{ONE_FLOW}B->A.enabled=true\n{IDENTITY}A->B.topics={topics[0]}\nB->A.topics={topics[1]}\n"
    codes = [each.code for each in findings(written(tmp_path, text))]
    assert codes == ([FindingCode.ENDLESS_COPIES] if refused else [])


def test_a_circle_over_three_clusters_is_found_once(tmp_path: Path) -> None:
    flows = "A->B.enabled=true\nB->C.enabled=true\nC->A.enabled=true\n"
    found = findings(written(tmp_path, f"clusters=A,B,C\n{BROKERS}C.bootstrap.servers=c:1\n{flows}{IDENTITY}"))
    assert [each.text for each in found] == [
        "with this policy A->B and B->C and C->A would copy each record in a circle for ever"
    ]


def test_two_ways_with_prefixes_are_no_circle(tmp_path: Path) -> None:
    assert shown(tmp_path, f"{ONE_FLOW}B->A.enabled=true\n") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            "\xef\xbb\xbfclusters=A,B\n",
            "it begins with the byte order mark of UTF-8: save it as ISO-8859-1, or as UTF-8 without that mark",
            id="a_mark",
        ),
        pytest.param(
            "clusters=A,B\nA.x=C:\\users\n",
            "line 2 has a \\u without four hexadecimal digits (write a backslash as \\\\)",
            id="an_escape",
        ),
    ],
)
def test_what_is_wrong_in_a_file_that_can_be_read_has_its_own_remedy(tmp_path: Path, text: str, line: str) -> None:
    assert shown(tmp_path, text) == [f"ERROR : {line}"]
