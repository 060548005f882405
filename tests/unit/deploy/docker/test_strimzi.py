"""A pod of Strimzi's operator: what it mounts and sets becomes what the worker starts with."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.docker.conventions import Mistake
from deploy.docker.strimzi import MOUNTED, PROPERTIES, STORE_PASSWORD, WORKER_STORE_PASSWORD, full_host_name, prepare
from mirror_connect.app.config.properties import parse_properties
from mirror_connect.connectors.config.security_settings import TLS_KEYS
from mirror_connect.kafka_io.client.tls import TlsSettings
from tests.fakes.certificates import Party, party


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / MOUNTED).parent.mkdir(parents=True)
    (tmp_path / MOUNTED).write_text("bootstrap.servers=b:9093\nconsumer.client.rack=zone-a\n")
    (tmp_path / "tmp").mkdir()
    return tmp_path


def mount(root: Path, alias: str, user: Party, *trusted: Party, below: str = "mm2-certs") -> None:
    directory = root / "opt" / "kafka" / below / alias
    directory.mkdir(parents=True)
    for number, authority in enumerate(trusted):
        (directory / f"ca{number}.crt").write_text(authority.pem)
    (directory / "user.crt").write_text(user.pem)
    (directory / "user.key").write_text(user.key_pem())


def test_the_mounted_properties_lie_where_connectors_look_for_them(root: Path) -> None:
    pod = prepare({}, stores=False, root=root)
    assert pod.properties == root / PROPERTIES
    assert pod.properties.read_text() == (root / MOUNTED).read_text()
    assert pod.variables == {"ADVERTISED_HOSTNAME": ".".join(full_host_name().split(".")[:4])}
    assert pod.notes == []


def test_a_pod_is_advertised_by_the_first_four_parts_of_its_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "my-connect-connect-0.my-connect-connect.kafka.svc.cluster.local"
    monkeypatch.setattr("deploy.docker.strimzi.full_host_name", lambda: name)
    advertised = prepare({}, stores=False, root=root).variables["ADVERTISED_HOSTNAME"]
    assert advertised == "my-connect-connect-0.my-connect-connect.kafka.svc"


def test_java_system_properties_join_kafkas_options(root: Path) -> None:
    pod = prepare({"KAFKA_OPTS": "-Da=1", "STRIMZI_JAVA_SYSTEM_PROPERTIES": "-Db=2"}, stores=False, root=root)
    assert pod.variables["KAFKA_OPTS"] == "-Da=1 -Db=2"


def test_what_has_no_effect_is_named(root: Path) -> None:
    for name in ("log4j2.properties", "metrics-config.json"):
        (root / MOUNTED).with_name(name).write_text("x")
    environment = {
        "STRIMZI_JMX_ENABLED": "true",
        "STRIMZI_KAFKA_GC_LOG_ENABLED": "false",
        "STRIMZI_DYNAMIC_HEAP_PERCENTAGE": "75",
        "STRIMZI_TRACING": "opentelemetry",
    }
    notes = prepare(environment, stores=False, root=root).notes
    assert [note.split()[3].strip(",") for note in notes] == [
        "STRIMZI_JMX_ENABLED",
        "STRIMZI_TRACING",
        "STRIMZI_DYNAMIC_HEAP_PERCENTAGE",
        "log4j2.properties",
    ]


def test_outside_of_a_pod_the_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"custom-config/kafka-connect\.properties can't be read \(No such file"):
        prepare({}, stores=False, root=tmp_path)


def opens(stores: Path, password: str) -> None:
    """Both stores open with the password; the first one has two authorities."""
    settings = TLS_KEYS.parse_all(
        {
            "ssl.truststore.location": f"{stores}.truststore.p12",
            "ssl.truststore.password": password,
            "ssl.truststore.type": "PKCS12",
            "ssl.keystore.location": f"{stores}.keystore.p12",
            "ssl.keystore.password": password,
            "ssl.keystore.type": "PKCS12",
        }
    )
    found = TlsSettings.of(settings)
    assert found.trusted is not None
    assert found.trusted.count("BEGIN CERTIFICATE") == 2
    assert found.pair is not None
    found.context()


def test_the_older_operators_get_stores_that_open_with_their_password(root: Path) -> None:
    authorities = [party(name, None, ca=True) for name in ("a", "b")]
    mount(root, "east", party("me", authorities[0], ca=False), *authorities)
    environment = {
        "KAFKA_MIRRORMAKER_2_CLUSTERS": "east;west",
        "KAFKA_MIRRORMAKER_2_TRUSTED_CERTS_CLUSTERS": "\neast=ca0.crt;ca1*.crt",
        "KAFKA_MIRRORMAKER_2_TLS_AUTH_CERTS_CLUSTERS": "\neast=user.crt",
        "KAFKA_MIRRORMAKER_2_TLS_AUTH_KEYS_CLUSTERS": "\neast=user.key",
    }
    pod = prepare(environment, stores=True, root=root)
    stores = root / "tmp" / "kafka" / "clusters"
    assert sorted(each.name for each in stores.iterdir()) == ["east.keystore.p12", "east.truststore.p12"]
    password = pod.variables[STORE_PASSWORD]
    opens(stores / "east", password)
    # A second start has another password: nothing of the first is left.
    assert prepare(environment, stores=True, root=root).variables[STORE_PASSWORD] != password


@pytest.mark.parametrize("stores", [False, True], ids=["kafkaconnect", "kafkamirrormaker2"])
def test_the_operator_0_46_gets_the_workers_own_stores(root: Path, stores: bool) -> None:
    authorities = [party(name, None, ca=True) for name in ("a", "b")]
    mount(root, "target-ca", party("me", authorities[0], ca=False), *authorities, below="connect-certs")
    environment = {
        "KAFKA_CONNECT_TRUSTED_CERTS": "target-ca/ca0.crt;target-ca/ca1*.crt",
        "KAFKA_CONNECT_TLS_AUTH_CERT": "target-ca/user.crt",
        "KAFKA_CONNECT_TLS_AUTH_KEY": "target-ca/user.key",
        "STRIMZI_KAFKA_GC_LOG_ENABLED": "true",
    }
    pod = prepare(environment, stores=stores, root=root)
    opens(root / "tmp" / "kafka" / "cluster", pod.variables[WORKER_STORE_PASSWORD])
    assert [note.split()[3] for note in pod.notes] == ["STRIMZI_KAFKA_GC_LOG_ENABLED"]


@pytest.mark.parametrize(
    ("environment", "properties", "names"),
    [
        pytest.param({}, "", None, id="none"),
        pytest.param({"KAFKA_CONNECT_JMX_EXPORTER_ENABLED": "false"}, "", None, id="off"),
        pytest.param({"KAFKA_CONNECT_JMX_EXPORTER_ENABLED": "true"}, "", "jmx", id="jmx_exporter"),
        pytest.param({"KAFKA_CONNECT_METRICS_ENABLED": "true"}, "", "jmx", id="operators_up_to_0_47"),
        pytest.param({}, "prometheus.metrics.reporter.listener.enable=true\n", "reporter", id="metrics_reporter"),
        pytest.param({}, "prometheus.metrics.reporter.listener.enable=false\n", None, id="reporter_off"),
    ],
)
def test_metrics_config_opens_the_port_that_the_operator_names(
    root: Path, environment: dict[str, str], properties: str, names: str | None
) -> None:
    mounted = root / MOUNTED
    mounted.write_text(mounted.read_text("utf-8") + properties, "utf-8")
    written = parse_properties(prepare(environment, stores=False, root=root).properties.read_text("utf-8"))
    expected = (None, None) if names is None else ("9404", names)
    assert (written.get("metrics.port"), written.get("metrics.names")) == expected


def test_a_port_of_the_resource_wins(root: Path) -> None:
    mounted = root / MOUNTED
    mounted.write_text("metrics.port=9500\n", "utf-8")
    pod = prepare({"KAFKA_CONNECT_JMX_EXPORTER_ENABLED": "true"}, stores=False, root=root)
    assert parse_properties(pod.properties.read_text("utf-8"))["metrics.port"] == "9500"


@pytest.mark.parametrize(
    ("file", "told"),
    [
        pytest.param("ca0.crt", "ca0.crt has no certificate in PEM", id="certificate"),
        pytest.param("user.key", "user.key is no private key in PEM", id="key"),
    ],
)
def test_a_broken_mount_is_named(root: Path, file: str, told: str) -> None:
    authority = party("a", None, ca=True)
    mount(root, "east", party("me", authority, ca=False), authority)
    (root / "opt" / "kafka" / "mm2-certs" / "east" / file).write_text("nothing")
    environment = {
        "KAFKA_MIRRORMAKER_2_CLUSTERS": "east",
        "KAFKA_MIRRORMAKER_2_TRUSTED_CERTS_CLUSTERS": "east=*.crt",
        "KAFKA_MIRRORMAKER_2_TLS_AUTH_CERTS_CLUSTERS": "east=user.crt",
        "KAFKA_MIRRORMAKER_2_TLS_AUTH_KEYS_CLUSTERS": "east=user.key",
    }
    with pytest.raises(Mistake, match=told):
        prepare(environment, stores=True, root=root)
