"""ACLs that are in force when a test goes on: a controller answers before its broker goes by them."""

from __future__ import annotations

from confluent_kafka.admin import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Kind

from deploy.local import LocalCluster
from tests.waiting import wait_for_state


def allow(cluster: LocalCluster, principal: str, kind: Kind, name: str, *operations: AclOperation) -> None:
    """Lets `principal` do that, and waits until the cluster's only broker knows of it."""
    wanted = [
        AclBinding(kind, name, Pattern.LITERAL, principal, "*", each, AclPermissionType.ALLOW) for each in operations
    ]
    for done in cluster.admin().create_acls(wanted).values():
        done.result(180)
    of_it = AclBindingFilter(kind, name, Pattern.LITERAL, principal, "*", AclOperation.ANY, AclPermissionType.ANY)
    wait_for_state(
        lambda: set(wanted) <= set(cluster.admin().describe_acls(of_it).result(180)), f"{principal} may use {name}"
    )
