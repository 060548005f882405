"""The Helm chart and its renderings: of this chart, of the form that Kubernetes takes, and with what a worker needs.

Where there is a `helm`, it renders anew. Elsewhere the digest shows that the manifests are what helm made of this chart.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml

from deploy.kubernetes.render import CHART, HEAD, MANIFESTS, digest, rendered
from mirror_connect.app.config.properties import parse_properties
from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.connectors.errors import ConfigError
from tests.image_root import stages
from tests.paths import FIXTURES, ROOT

BUNDLE: Final = json.loads((FIXTURES / "schemas" / "kubernetes-1.37.json").read_text("utf-8"))
PLAIN, EXAMPLE = MANIFESTS


def objects(path: Path) -> dict[str, dict[str, Any]]:
    """Kind → object; there is one of each."""
    return {each["kind"]: each for each in yaml.safe_load_all(path.read_text("utf-8"))}


def faults(each: dict[str, Any]) -> list[str]:
    schema = {"$schema": BUNDLE["$schema"], "$defs": BUNDLE["$defs"], **BUNDLE["kinds"][each["kind"]]}
    return [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(each)]


def pod(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = objects(path)["Deployment"]["spec"]["template"]
    return found


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_manifest_is_what_helm_makes_of_this_chart(path: Path) -> None:
    assert path.read_text("utf-8").startswith(f"{HEAD}{digest()}\n"), "run make manifests"
    helm = shutil.which("helm")
    if helm is not None:
        assert rendered(helm, *MANIFESTS[path]) == path.read_text("utf-8")


def test_a_changed_chart_has_another_digest(tmp_path: Path) -> None:
    copy = tmp_path / "kubernetes" / "helm" / "mirror-connect"
    shutil.copytree(CHART, copy)
    before = digest(copy)
    (copy / "values.yaml").write_text("replicas: 3\n")
    assert digest(copy) != before


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_every_object_has_the_form_that_kubernetes_takes(path: Path) -> None:
    found = objects(path)
    needed = {"Deployment", "Service", "ConfigMap", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"}
    assert needed <= found.keys()
    for each in found.values():
        assert faults(each) == [], each["kind"]


def test_the_schemas_would_find_a_fault() -> None:
    deployment = objects(PLAIN)["Deployment"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["livenessProb"] = {}
    container["ports"][0]["containerPort"] = "rest"
    assert len(faults(deployment)) == 2


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_selectors_choose_the_workers(path: Path) -> None:
    found = objects(path)
    labels = pod(path)["metadata"]["labels"]
    selectors = (
        found["Deployment"]["spec"]["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    )
    for selector in selectors:
        assert selector.items() <= labels.items()
    # The dashboards of Strimzi choose by these. Its operator takes pods of its own by strimzi.io/name, too.
    assert "strimzi.io/name" not in labels
    assert (labels["strimzi.io/kind"], labels["strimzi.io/cluster"]) == ("KafkaMirrorMaker2", "mirror-connect")


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_an_outage_of_the_cluster_makes_a_worker_unready_and_does_not_kill_it(path: Path) -> None:
    container = pod(path)["spec"]["containers"][0]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/", "liveness": "/", "readiness": "/health"}
    assert container["ports"] == [
        {"name": "rest-api", "containerPort": 8083},
        # By this name Strimzi's PodMonitor finds it.
        {"name": "tcp-prometheus", "containerPort": 9404},
    ]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_pod_may_do_nothing_that_a_worker_need_not(path: Path) -> None:
    spec = pod(path)["spec"]
    container = spec["containers"][0]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    of_pod = spec["securityContext"]
    assert (of_pod["runAsNonRoot"], of_pod["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    # The example leaves the user to OpenShift.
    user = {} if path == EXAMPLE else {"runAsUser": int(stages()[-1].last("USER", "")), "runAsGroup": 0, "fsGroup": 0}
    assert {name: number for name, number in of_pod.items() if name.startswith(("runAsU", "runAsG", "fs"))} == user
    assert spec["automountServiceAccountToken"] is (path == EXAMPLE)
    assert "memory" in container["resources"]["limits"]
    assert {"/tmp", "/etc/mirror-connect/worker"} <= {each["mountPath"] for each in container["volumeMounts"]}


def test_workers_are_spread_over_nodes_and_zones() -> None:
    found = pod(PLAIN)
    spread = found["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    for each in spread:
        assert each["labelSelector"]["matchLabels"].items() <= found["metadata"]["labels"].items()
        # With fewer nodes than workers they run all the same.
        assert each["whenUnsatisfiable"] == "ScheduleAnyway"


def test_others_reach_nothing_but_rest_and_metrics() -> None:
    # The internal HTTP, Spark's driver and its block manager listen on the loopback address.
    rest, metrics = objects(PLAIN)["NetworkPolicy"]["spec"]["ingress"]
    assert rest == {"ports": [{"port": "rest-api"}], "from": [{"podSelector": {}}]}
    assert metrics == {"ports": [{"port": "tcp-prometheus"}], "from": [{"podSelector": {}}]}


def test_prometheus_finds_the_metrics_by_annotations_or_by_strimzis_labels() -> None:
    metadata = pod(PLAIN)["metadata"]
    found = {name: value for name, value in metadata["annotations"].items() if name.startswith("prometheus.io/")}
    assert found == {"prometheus.io/scrape": "true", "prometheus.io/port": "9404", "prometheus.io/path": "/metrics"}
    assert {"strimzi.io/kind", "strimzi.io/cluster"} <= metadata["labels"].keys()


def test_the_worker_takes_the_properties() -> None:
    text = objects(PLAIN)["ConfigMap"]["data"]["worker.properties"]
    mounted = {"config.providers.dir.param.allowed.paths": str(ROOT)}
    config = worker_config(parse_properties(text) | mounted, {"POD_IP": "10.1.2.3"})
    assert (config.worker_id(), config.group_id) == ("10.1.2.3:8083", "mirror-connect")
    assert config.offset_storage.replication_factor == -1
    assert config.metrics.port == 9404


def test_the_examples_properties_are_written_whole_and_its_secrets_may_be_read() -> None:
    found = objects(EXAMPLE)
    properties = parse_properties(found["ConfigMap"]["data"]["worker.properties"])
    assert properties["offset.flush.interval.ms"] == "1000000"
    assert properties["topic.tracking.enable"] == "false"
    (rule,) = found["Role"]["rules"]
    assert rule == {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": ["my-cluster-cluster-ca-cert"],
        "verbs": ["get"],
    }
    assert found["RoleBinding"]["subjects"][0]["namespace"] == "kafka"
    # Outside of a cluster the reference is as far as it comes.
    with pytest.raises(ConfigError, match="Could not read Secret my-cluster-cluster-ca-cert of Kubernetes"):
        worker_config(properties | {"config.providers.dir.param.allowed.paths": str(ROOT)}, {"POD_IP": "10.1.2.3"})
    mounts = {each["name"]: each["mountPath"] for each in pod(EXAMPLE)["spec"]["containers"][0]["volumeMounts"]}
    assert f"${{dir:{mounts['secrets']}:password}}" in properties["sasl.jaas.config"]


def test_the_pod_starts_again_with_other_properties() -> None:
    hashes = {pod(path)["metadata"]["annotations"]["mirror-connect/properties"] for path in MANIFESTS}
    assert len(hashes) == 2


def test_values_are_used_and_what_is_used_has_a_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    templates = "".join(file.read_text("utf-8") for file in sorted((CHART / "templates").iterdir()))
    used = {each.split(".")[0] for each in re.findall(r"\.Values\.([\w.]+)", templates)}
    assert used == values.keys()
