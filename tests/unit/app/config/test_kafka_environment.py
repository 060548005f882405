"""The variables of Kafka's start scripts: the heap that they give to Spark's JVM, and what is said of the others."""

from __future__ import annotations

import pytest

from mirror_connect.app.config.kafka_environment import HEAP, JVM_OPTIONS, MEMORY, WITHOUT_EFFECT, notices, with_heap
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.task_protocol import CONNECT, DEDICATED, MIRROR_MAKER_1


@pytest.mark.parametrize(
    ("given", "memory", "options"),
    [
        pytest.param("-Xms256M -Xmx2G", "2048m", "-Xms256m", id="as_kafkas_scripts_have_it"),
        pytest.param("-Xmx1g", "1024m", None, id="no_initial_size"),
        pytest.param("-Xmx1g -Xmx2g", "2048m", None, id="the_last_one_counts"),
        pytest.param("-Xmx1073741824", "1024m", None, id="bytes"),
        pytest.param("-Xmx256M", "512m", None, id="less_than_spark_needs"),
        pytest.param("-Xms1G", "1024m", "-Xms1024m", id="more_at_first_than_the_default_at_most"),
        pytest.param("-XX:MaxRAMPercentage=70.0", None, None, id="no_size"),
        pytest.param("", None, None, id="empty"),
    ],
)
def test_the_heap_of_kafkas_scripts_is_that_of_sparks_jvm(given: str, memory: str | None, options: str | None) -> None:
    found = with_heap({"spark.master": "local[1,4]"}, {HEAP: given})
    assert (found.pop("spark.master"), found.get(MEMORY), found.get(JVM_OPTIONS)) == ("local[1,4]", memory, options)


def test_the_properties_win_over_the_environment() -> None:
    own = {MEMORY: "1g"}
    assert with_heap(own, {HEAP: "-Xms3G -Xmx4G"}) == own
    assert notices(own, {HEAP: "-Xms3G -Xmx4G"}) == [
        "KAFKA_HEAP_OPTS has no effect: spark.driver.memory=1g in the properties gives the heap of Spark's JVM"
    ]


def test_other_options_of_the_jvm_stay() -> None:
    assert with_heap({JVM_OPTIONS: "-Da=b"}, {HEAP: "-Xms1g -Xmx1g"})[JVM_OPTIONS] == "-Xms1024m -Da=b"


@pytest.mark.parametrize("given", ["-Xmx", "-Xmx2Q", "-Xmslots"])
def test_a_size_that_is_none_is_named(given: str) -> None:
    with pytest.raises(ConfigError, match=f"^Invalid value {given} for configuration KAFKA_HEAP_OPTS: "):
        notices({}, {HEAP: given})


def test_nothing_is_said_of_what_has_its_effect() -> None:
    options = "-Djava.security.auth.login.config=/etc/jaas.conf -Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=x"
    assert notices({}, {HEAP: "-Xms256M -Xmx2G", "KAFKA_OPTS": options, "LOG_DIR": "/var/log", "JMX_PORT": ""}) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        pytest.param(HEAP, "-Xmx256M", ("256 MiB", "512"), id="a_small_heap"),
        pytest.param(HEAP, "-Xmx1g -XX:MaxRAMPercentage=70", ("-XX:MaxRAMPercentage;", JVM_OPTIONS), id="another_size"),
        pytest.param("KAFKA_OPTS", "-javaagent:/jmx.jar=9404 -Dx=y", ("-javaagent, -Dx ", JVM_OPTIONS), id="options"),
        pytest.param("KAFKA_LOG4J_OPTS", "-Dlog4j.configuration=f", ("MIRROR_CONNECT_LOG_LEVEL", "/admin"), id="log"),
        pytest.param("KAFKA_JVM_PERFORMANCE_OPTS", "-XX:+UseG1GC", (JVM_OPTIONS,), id="performance"),
        pytest.param("JMX_PORT", "9999", ("no JMX", "REST"), id="jmx"),
        pytest.param("KAFKA_DEBUG", "y", ("MIRROR_CONNECT_LOG_LEVEL=DEBUG",), id="debugger"),
        pytest.param("CLASSPATH", "/x.jar", ("plugin.path",), id="classes"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_named_with_what_has(name: str, value: str, words: tuple[str, ...]) -> None:
    (line,) = notices({}, {name: value})
    assert [word for word in (name, *words) if word not in line] == []
    assert len(line.split()) <= 25


def test_no_value_of_an_option_is_shown() -> None:
    secret = "hunter22"
    environment = {"KAFKA_OPTS": f"-Djavax.net.ssl.keyStorePassword={secret} -javaagent:{secret} {secret}"}
    environment |= {"KAFKA_LOG4J_OPTS": secret, HEAP: f"-Dx={secret}"}
    said = notices({}, environment)
    assert len(said) == 3
    assert [line for line in said if secret in line] == []


ALL = dict.fromkeys(WITHOUT_EFFECT[CONNECT], "value")


@pytest.mark.parametrize("program", [DEDICATED, MIRROR_MAKER_1])
def test_the_same_variables_are_named_in_each_mode(program: str) -> None:
    assert [line.split()[0] for line in notices({}, ALL, program)] == list(ALL)


def test_dedicated_mode_is_sent_to_the_rest_interface_that_it_has() -> None:
    lines = notices({}, ALL, DEDICATED)
    assert [line for line in lines if "/admin" in line or "/offsets" in line] == []
    assert notices({}, {"JMX_PORT": "9999"}, DEDICATED) == [
        "JMX_PORT has no effect: there is no JMX; with dedicated.mode.enable.internal.rest=true "
        "GET /A/B/connectors/NAME/status shows states"
    ]


def test_mirrormaker_1_is_sent_neither_to_rest_nor_to_properties_that_it_has_not() -> None:
    options = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/etc/jaas.conf -Dx=y", HEAP: "-Xmx1g -XX:+UseG1GC"}
    lines = notices({}, {**ALL, **options}, MIRROR_MAKER_1)
    words = ("REST", "GET ", "PUT ", "/connectors", "/admin", "plugin.path", "spark.", "properties")
    assert [line for line in lines if any(word in line for word in words)] == []
    assert (
        "KAFKA_OPTS: -Djava.security.auth.login.config has no effect here: set sasl.jaas.config in the clients' files"
        in lines
    )
