"""Which masters there are, and what Spark takes."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.spark_masters import Kind, is_local, kind_of, problem_of


@pytest.mark.parametrize(
    ("master", "kind"),
    [
        pytest.param("local", Kind.LOCAL, id="one_slot"),
        pytest.param("local[64,4]", Kind.LOCAL, id="slots_and_tries"),
        pytest.param("local[*]", Kind.LOCAL, id="a_slot_for_each_cpu"),
        pytest.param("local-cluster[2,4,512]", Kind.STANDALONE, id="a_cluster_of_processes"),
        pytest.param("spark://a:7077", Kind.STANDALONE, id="standalone"),
        pytest.param("spark://a:7077,b:7077", Kind.STANDALONE, id="masters_with_a_standby"),
        pytest.param("spark://[::1]:7077", Kind.STANDALONE, id="ipv6"),
        pytest.param("yarn", Kind.YARN, id="yarn"),
        pytest.param("k8s://https://10.0.0.1:6443", Kind.KUBERNETES, id="kubernetes"),
        pytest.param("k8s://http://localhost:8001", Kind.KUBERNETES, id="kubernetes_by_kubectl_proxy"),
        pytest.param("k8s://api:6443", Kind.KUBERNETES, id="kubernetes_without_scheme"),
        pytest.param("k8s://https://kubernetes.default.svc", Kind.KUBERNETES, id="kubernetes_without_port"),
        pytest.param("k8s://https://rancher/k8s/clusters/c-1", Kind.KUBERNETES, id="kubernetes_behind_a_path"),
    ],
)
def test_kind_of_a_master(master: str, kind: Kind) -> None:
    assert (kind_of(master), problem_of(master)) == (kind, None)
    assert is_local(master) == (kind is Kind.LOCAL)


@pytest.mark.parametrize(
    ("master", "told"),
    [
        pytest.param("", "not a master that Spark knows", id="empty"),
        pytest.param("localhost:7077", "not a local master with slots", id="a_host_alone"),
        pytest.param("local[0,4]", "not a local master with slots", id="no_slots"),
        pytest.param("local[2", "not a local master with slots", id="an_open_bracket"),
        pytest.param("local-cluster[2,1]", "local-cluster[EXECUTORS,SLOTS,MB]", id="a_cluster_without_memory"),
        pytest.param("spark://a", "a is not HOST:PORT", id="no_port"),
        pytest.param("spark://a:7077,b", "b is not HOST:PORT", id="a_standby_without_port"),
        pytest.param("spark://a:7077,", "an empty address is not HOST:PORT", id="nothing_behind_a_comma"),
        pytest.param("spark://a:seven", "a:seven is not HOST:PORT", id="a_port_in_letters"),
        pytest.param("spark://a:70770", "a:70770 is not HOST:PORT", id="a_port_too_large"),
        pytest.param("spark://me@a:7077", "me@a:7077 is not HOST:PORT", id="a_user"),
        pytest.param("spark://a:7077/x", "a:7077/x is not HOST:PORT", id="a_path"),
        pytest.param("spark://a:7077, b:7077", " b:7077 is not HOST:PORT", id="a_space"),
        pytest.param("yarn-client", "not a master that Spark knows", id="of_spark_1"),
        pytest.param("YARN", "not a master that Spark knows", id="in_capitals"),
        pytest.param("mesos://a:5050", "not a master that Spark knows", id="of_spark_3"),
        pytest.param("sc://a:15002", "Spark Connect", id="spark_connect"),
        pytest.param("k8s://", "is not the address", id="kubernetes_nowhere"),
        pytest.param("k8s://ftp://a", "ftp:// is not the scheme", id="kubernetes_by_another_scheme"),
        pytest.param("k8s://https://a:6443?x=1", "is not the address", id="kubernetes_with_a_query"),
    ],
)
def test_what_spark_does_not_take_is_told_with_what_to_write(master: str, told: str) -> None:
    problem = problem_of(master)
    assert problem is not None
    assert told in problem
    assert "spark://HOST:PORT" in problem
