"""Spark's settings on a cluster: defaults, what is computed, and what nobody may change."""

from __future__ import annotations

import sys
import zipfile

import pytest

from mirror_connect.connectors.spark_masters import Kind
from mirror_connect.spark_jobs.cluster_settings import (
    ARCHIVES,
    CLUSTER_SETTINGS,
    CLUSTERS,
    CORES,
    EXECUTOR_ENVIRONMENT,
    EXECUTOR_OPTIONS,
    OVERHEAD,
    cluster_settings,
    memory_overhead,
)
from mirror_connect.spark_jobs.jvm import spark_home

# Where Spark declares its settings.
_CONFIG_CLASSES = {
    "spark-core_*.jar": ("org/apache/spark/internal/config/", "org/apache/spark/SparkConf"),
    "spark-launcher_*.jar": ("org/apache/spark/launcher/SparkLauncher",),
    "spark-kubernetes_*.jar": ("org/apache/spark/deploy/k8s/Config",),
    "spark-yarn_*.jar": ("org/apache/spark/deploy/yarn/config/",),
}
# What Spark hands on to commons-crypto, and which of its classes does.
_OF_COMMONS_CRYPTO = {
    "spark.network.crypto.config.": (
        "spark-network-common_*.jar",
        "org/apache/spark/network/util/TransportConf.class",
    ),
    "spark.io.encryption.commons.config.": (
        "spark-core_*.jar",
        "org/apache/spark/security/CryptoStreamUtils$.class",
    ),
}
MASTERS = {Kind.STANDALONE: "spark://a:7077", Kind.YARN: "yarn", Kind.KUBERNETES: "k8s://a:6443"}


def _settings(kind: Kind, **given: str) -> dict[str, str]:
    return cluster_settings({"spark.master": MASTERS[kind], **{_name(each): given[each] for each in given}}, kind)


def _name(word: str) -> str:
    return f"spark.{word.replace('__', '.')}"


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_fixed_setting_stays_and_the_log_says_so(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    found = _settings(kind, speculation="true", task__cpus="2", dynamicAllocation__enabled="true")
    assert (found["spark.speculation"], found["spark.task.cpus"]) == ("false", "1")
    assert found["spark.dynamicAllocation.enabled"] == "false"
    assert [line.partition(" ")[0] for line in caplog.messages] == [
        "spark.speculation=true",
        "spark.task.cpus=2",
        "spark.dynamicAllocation.enabled=true",
    ]


def test_a_fixed_setting_with_its_own_value_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    _settings(Kind.YARN, speculation="false", task__cpus="1")
    assert caplog.messages == []


@pytest.mark.parametrize("kind", CLUSTERS)
def test_a_default_gives_way(kind: Kind) -> None:
    assert _settings(kind)["spark.task.maxFailures"] == "8"
    assert _settings(kind, task__maxFailures="20")["spark.task.maxFailures"] == "20"


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        pytest.param(Kind.STANDALONE, "spark.executor.cores", None, id="a_standalone_worker_gives_all_its_cores"),
        pytest.param(Kind.YARN, "spark.executor.cores", "4", id="yarn_has_to_be_told"),
        pytest.param(Kind.STANDALONE, "spark.executor.memoryOverhead", None, id="a_standalone_cluster_has_no_overhead"),
        pytest.param(Kind.YARN, "spark.executor.memoryOverhead", "1000m", id="memory_for_four_processes"),
        pytest.param(Kind.KUBERNETES, "spark.kubernetes.executor.request.cores", "1", id="a_slot_is_no_cpu"),
        pytest.param(Kind.YARN, "spark.kubernetes.executor.request.cores", None, id="of_kubernetes_alone"),
        pytest.param(
            Kind.KUBERNETES, "spark.executor.failuresValidityInterval", "1h", id="lost_executors_are_forgotten"
        ),
        pytest.param(Kind.STANDALONE, "spark.executor.failuresValidityInterval", None, id="the_master_counts_itself"),
        pytest.param(Kind.YARN, "spark.yarn.am.attemptFailuresValidityInterval", "1h", id="lost_masters_are_forgotten"),
    ],
)
def test_each_kind_of_master_has_its_own(kind: Kind, name: str, value: str | None) -> None:
    assert _settings(kind).get(name) == value


@pytest.mark.parametrize(("cores", "overhead"), [("1", "400m"), ("32", "6600m"), ("many", "400m")])
def test_memory_beside_the_heap_follows_the_slots(cores: str, overhead: str) -> None:
    assert memory_overhead(cores) == overhead
    assert _settings(Kind.KUBERNETES, executor__cores=cores)["spark.executor.memoryOverhead"] == overhead


def test_memory_that_a_user_asks_for_is_not_computed() -> None:
    assert _settings(Kind.YARN, executor__memoryOverhead="3g")["spark.executor.memoryOverhead"] == "3g"


@pytest.mark.parametrize(
    ("given", "python"),
    [
        pytest.param({}, sys.executable, id="the_same_path_on_all_hosts"),
        pytest.param({"archives": "/a/e.tar.gz#environment"}, "./environment/bin/python", id="of_the_archive"),
        pytest.param({"archives": "x.zip, /e.tar.gz#environment"}, "./environment/bin/python", id="one_of_several"),
        pytest.param({"archives": "/a/keys.zip#keys"}, sys.executable, id="an_archive_of_something_else"),
        pytest.param(
            {"archives": "/a#environment", "pyspark__python": "/opt/python"}, "/opt/python", id="as_a_user_says"
        ),
    ],
)
def test_executors_use_the_python_that_is_there(given: dict[str, str], python: str) -> None:
    assert _settings(Kind.STANDALONE, **given)["spark.pyspark.python"] == python


def test_sockets_of_python_are_in_an_executors_own_directory() -> None:
    found = _settings(Kind.STANDALONE, python__unix__domain__socket__enabled="true")
    # The driver reads these as well, and its own directory is not for them.
    assert "spark.python.unix.domain.socket.enabled" not in found
    assert found["spark.python.unix.domain.socket.dir"] == "."
    assert found["spark.executorEnv.PYSPARK_UDS_MODE"] == "true"


def test_tasks_get_the_workers_own_variables_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_CONNECT_PLUGIN_PATH", "/opt/filters")
    monkeypatch.setenv("MIRROR_CONNECT_PLUGIN_MODULES", "")
    monkeypatch.setenv("SOME_PASSWORD", "x")
    found = _settings(Kind.STANDALONE)
    assert found["spark.executorEnv.MIRROR_CONNECT_PLUGIN_PATH"] == "/opt/filters"
    assert "spark.executorEnv.MIRROR_CONNECT_PLUGIN_MODULES" not in found
    assert "x" not in found.values()


def test_a_users_options_for_executors_come_after_ours() -> None:
    options = _settings(Kind.YARN, executor__extraJavaOptions="-Dmine=1")["spark.executor.extraJavaOptions"]
    assert options.startswith("-XX:+UseSerialGC ")
    assert options.endswith(" -Dmine=1")
    # Spark refuses a heap there, and the archive of classes is on the worker's host.
    assert "-Xmx" not in options
    assert "SharedArchiveFile" not in options


def test_each_setting_has_a_reason_and_stands_once_for_a_kind() -> None:
    assert all(each.reason for each in CLUSTER_SETTINGS)
    for kind in CLUSTERS:
        names = [each.name for each in CLUSTER_SETTINGS if kind in each.kinds]
        assert len(names) == len(set(names))


def test_each_name_is_one_that_spark_reads() -> None:
    """A name that nobody reads would have no effect, and nobody would say so."""
    names = {each.name for each in CLUSTER_SETTINGS} | {ARCHIVES, CORES, EXECUTOR_OPTIONS, OVERHEAD}
    # Variables of executors have any name; those of commons-crypto are in the next test.
    others = (EXECUTOR_ENVIRONMENT, *_OF_COMMONS_CRYPTO)
    wanted = {name for name in names if not name.startswith(others)}
    found: set[str] = set()
    for jar, classes in _CONFIG_CLASSES.items():
        with zipfile.ZipFile(next((spark_home() / "jars").glob(jar))) as archive:
            of_config = [each for each in archive.namelist() if each.startswith(classes) and each.endswith(".class")]
            found |= {name for each in of_config for name in wanted if name.encode() in archive.read(each)}
    assert wanted - found == set()


def test_spark_encrypts_by_classes_without_a_native_library() -> None:
    """tests/e2e/test_spark_cluster.py looks at executors. A wrong name would bring the library back."""
    found = {each.name: each.value for each in CLUSTER_SETTINGS if each.name.startswith(tuple(_OF_COMMONS_CRYPTO))}
    assert len(found) == 3
    with zipfile.ZipFile(next((spark_home() / "jars").glob("commons-crypto-*.jar"))) as archive:
        classes = {name: archive.read(name) for name in archive.namelist() if name.endswith(".class")}
    for name, value in found.items():
        prefix = next(each for each in _OF_COMMONS_CRYPTO if name.startswith(each))
        key = f"commons.crypto.{name.removeprefix(prefix)}".encode()
        assert any(key in content for content in classes.values()), name
        assert b"NativeCodeLoader" not in classes[f"{value.replace('.', '/')}.class"]
        jar, reader = _OF_COMMONS_CRYPTO[prefix]
        with zipfile.ZipFile(next((spark_home() / "jars").glob(jar))) as archive:
            assert prefix.encode() in archive.read(reader)


def test_yarn_gets_archives_by_its_own_name_and_once() -> None:
    found = _settings(Kind.YARN, archives="/e.tar.gz#environment", yarn__dist__archives="/k.zip#keys")
    assert "spark.archives" not in found
    assert found["spark.yarn.dist.archives"] == "/k.zip#keys,/e.tar.gz#environment"
    assert found["spark.pyspark.python"] == "./environment/bin/python"
    assert _settings(Kind.STANDALONE, archives="/e.tar.gz#environment")["spark.archives"] == "/e.tar.gz#environment"
