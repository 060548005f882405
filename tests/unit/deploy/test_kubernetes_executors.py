"""Spark's executors on Kubernetes: manifests of the form that Kubernetes takes, settings that Spark takes, and the image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml

from deploy.docker.conventions import Mistake
from deploy.docker.spark_executor import MAIN_CLASS, executor_command
from deploy.kubernetes.render import MANIFESTS
from mirror_connect.app.config.properties import parse_properties
from mirror_connect.app.config.worker_config import worker_config
from mirror_connect.connectors.spark_masters import Kind, kind_of
from mirror_connect.spark_jobs.jvm import spark_home
from tests.paths import FIXTURES, ROOT

KUBERNETES: Final = ROOT / "deploy" / "kubernetes"
BUNDLE: Final = json.loads((FIXTURES / "schemas" / "kubernetes-1.37.json").read_text("utf-8"))
VALUES: Final[dict[str, Any]] = yaml.safe_load((KUBERNETES / "values-executors.yaml").read_text("utf-8"))
# What Spark 4.2 gives to an executor's container.
SPARKS: Final = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.9:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "8",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-application-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "mirror-connect-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_0": "-Da=b",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_2": "-Dtwo=2",
}


def _faults(schema: dict[str, Any], each: Any) -> list[str]:
    whole = {"$schema": BUNDLE["$schema"], "$defs": BUNDLE["$defs"], **schema}
    return [error.message for error in jsonschema_rs.validator_for(whole).iter_errors(each)]


def _objects() -> dict[str, dict[str, Any]]:
    text = (KUBERNETES / "spark-executors.yaml").read_text("utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def _template() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((KUBERNETES / "spark-executor-pod.yaml").read_text("utf-8"))
    return found


def test_every_object_has_the_form_that_kubernetes_takes() -> None:
    objects = _objects()
    assert set(objects) == {"Role", "RoleBinding", "NetworkPolicy"}
    for kind, each in objects.items():
        assert _faults(BUNDLE["kinds"][kind], each) == []


def test_the_template_is_a_pod_and_the_schema_would_find_a_fault() -> None:
    template = _template()
    assert (template.pop("apiVersion"), template.pop("kind")) == ("v1", "Pod")
    schema = {"$ref": "#/$defs/io.k8s.api.core.v1.PodTemplateSpec"}
    assert _faults(schema, template) == []
    template["spec"]["containers"][0]["securityContex"] = {}
    assert len(_faults(schema, template)) == 1


def test_an_executor_may_do_no_more_than_the_worker() -> None:
    worker = next(
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all(next(iter(MANIFESTS)).read_text("utf-8"))
        if each["kind"] == "Deployment"
    )
    executor = _template()["spec"]
    assert executor["containers"][0]["securityContext"] == worker["containers"][0]["securityContext"]
    assert executor["securityContext"] == worker["securityContext"]
    assert executor["automountServiceAccountToken"] is False


def test_the_values_are_a_configuration_that_a_worker_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "10.0.0.9")
    monkeypatch.setenv("HOSTNAME", "mirror-connect-7")
    config_map = next(
        each for each in yaml.safe_load_all(next(iter(MANIFESTS)).read_text("utf-8")) if each["kind"] == "ConfigMap"
    )
    given = parse_properties(config_map["data"]["worker.properties"]) | VALUES["properties"]
    # A directory of the pod.
    given["config.providers.dir.param.allowed.paths"] = str(tmp_path)
    spark = worker_config(given).spark
    assert kind_of(spark["spark.master"]) is Kind.KUBERNETES
    assert (spark["spark.driver.host"], spark["spark.kubernetes.driver.pod.name"]) == ("10.0.0.9", "mirror-connect-7")


def test_executors_reach_the_ports_of_the_values_and_no_others() -> None:
    rule = _objects()["NetworkPolicy"]["spec"]["ingress"][0]
    names = ("spark.driver.port", "spark.driver.blockManager.port", "task.listener.port")
    assert [port["port"] for port in rule["ports"]] == [int(VALUES["properties"][name]) for name in names]
    # A label that Spark gives to each executor's pod.
    assert rule["from"] == [{"podSelector": {"matchLabels": {"spark-role": "executor"}}}]


def test_the_template_lies_where_the_values_say() -> None:
    mounted = VALUES["extraVolumeMounts"][0]["mountPath"]
    assert VALUES["properties"]["spark.kubernetes.executor.podTemplateFile"] == f"{mounted}/spark-executor-pod.yaml"


def test_the_image_starts_an_executor_as_sparks_own_image_does() -> None:
    command = executor_command({**SPARKS, "JAVA_HOME": "/opt/java", "SPARK_CLASSPATH": ":/opt/spark/jars/*"})
    assert command[:5] == ["/opt/java/bin/java", "-Da=b", "-Dtwo=2", "-Dlast=1", "-Xmx512m"]
    assert str(spark_home() / "jars") in command[command.index("-cp") + 1]
    of_class = command[command.index(MAIN_CLASS) + 1 :]
    assert dict(zip(of_class[::2], of_class[1::2], strict=True)) == {
        "--driver-url": "spark://CoarseGrainedScheduler@10.0.0.9:7078",
        "--executor-id": "3",
        "--cores": "8",
        "--app-id": "spark-application-1",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "mirror-connect-exec-3",
    }


@pytest.mark.parametrize("missing", ["SPARK_DRIVER_URL", "SPARK_EXECUTOR_MEMORY"])
def test_a_container_that_spark_has_not_started_says_so(missing: str) -> None:
    with pytest.raises(Mistake, match=f"{missing} is not set"):
        executor_command({name: value for name, value in SPARKS.items() if name != missing})
