"""The order of Java's HashMap: expected orders were printed by Java 17, those of keys are Kafka's own in connect-offsets."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.config.java_maps import in_hash_order

FILLED = "k0,k1,k2,k3,k4,k5,k6,k7,k8,k9,k10,k11,k12,k13"
MANY = "partition,group,topic,cluster,offset,a,b,c,d,e,f,g,h,AaAa,BBBB,AaBB,zz,yy,xx,ww,vv,uu,tt,ss,rr,qq"
MANY_SORTED = "zz,xx,vv,tt,rr,cluster,partition,group,AaAa,BBBB,AaBB,yy,ww,uu,ss,qq,a,b,c,offset,d,e,f,g,h,topic"


@pytest.mark.parametrize(
    ("put", "got"),
    [
        pytest.param("topic,partition,cluster", "cluster,partition,topic", id="source"),
        pytest.param("group,topic,partition", "partition,topic,group", id="checkpoint"),
        pytest.param("targetClusterAlias,sourceClusterAlias", "sourceClusterAlias,targetClusterAlias", id="heartbeat"),
        pytest.param("BB,Aa,C#,x", "BB,Aa,C#,x", id="equal_hashes_stay_as_put"),
        pytest.param("😀,é,中,\0z,long-name-of-a-key", "😀,é,long-name-of-a-key,\0z,中", id="beyond_ascii"),
        pytest.param(FILLED, "k0,k1,k2,k3,k4,k5,k11,k6,k10,k7,k13,k8,k12,k9", id="grown_once"),
        pytest.param(MANY, MANY_SORTED, id="grown_twice"),
    ],
)
def test_members_come_in_the_order_of_a_hash_map(put: str, got: str) -> None:
    assert ",".join(in_hash_order(dict.fromkeys(put.split(","), 1))) == got


def test_objects_inside_are_ordered_too() -> None:
    ordered = in_hash_order({"z": [{"topic": 1, "cluster": {"topic": 2, "cluster": 3}}]})
    assert repr(ordered) == "{'z': [{'cluster': {'cluster': 3, 'topic': 2}, 'topic': 1}]}"
