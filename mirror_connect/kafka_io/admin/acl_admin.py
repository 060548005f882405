"""Describes, creates and deletes ACLs of topics. Calls block: use an executor. A refused binding stops no other."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding as Binding,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mirror_connect.connectors.acls import AclBinding
from mirror_connect.connectors.rights import on_cluster
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.protocol.acls import AclEntry, DescribeTopicAcls
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode

WHAT: Final = "asked for the ACLs of topics"
# Bindings in a request.
AT_ONCE: Final = 500


def topic_acls(admin: ClusterAdmin) -> set[AclBinding] | None:
    """Every ACL of topics, with any pattern type; None if the cluster has no authorizer.

    ClusterUnreachable, NotAuthorized (it takes DESCRIBE on the cluster), AdminError.
    """
    (answer,) = admin.ask([DescribeTopicAcls()], WHAT)
    if answer.error == ErrorCode.SECURITY_DISABLED:
        return None
    if answer.error:
        raise admin.refusal(WHAT, answer.error, on_cluster("DESCRIBE"))
    return {binding for each in answer.acls if (binding := _ours(each)) is not None}


def create_acls(admin: ClusterAdmin, bindings: Sequence[AclBinding]) -> dict[AclBinding, str]:
    """Creates bindings; one line for each that was refused."""

    def create(client: AdminClient, some: Sequence[AclBinding], left: float) -> Sequence[Future[Any]]:
        return list(client.create_acls([_theirs(each, Binding) for each in some], request_timeout=left).values())

    return _refused(admin, bindings, create, "was not created")


def delete_acls(admin: ClusterAdmin, bindings: Sequence[AclBinding]) -> dict[AclBinding, str]:
    """Deletes exactly these bindings; one line for each that was refused."""

    def delete(client: AdminClient, some: Sequence[AclBinding], left: float) -> Sequence[Future[Any]]:
        filters = [_theirs(each, AclBindingFilter) for each in some]
        return list(client.delete_acls(filters, request_timeout=left).values())

    return _refused(admin, bindings, delete, "was not deleted")


def binding_text(binding: AclBinding) -> str:
    """A binding in words, for logs and errors."""
    return (
        f"{binding.permission} {binding.operation} for {binding.principal} from host {binding.host} "
        f"on {binding.pattern} topic {binding.name}"
    )


def _refused(admin: ClusterAdmin, bindings: Sequence[AclBinding], ask: Any, how: str) -> dict[AclBinding, str]:
    refused: dict[AclBinding, str] = {}
    for start in range(0, len(bindings), AT_ONCE):
        some = bindings[start : start + AT_ONCE]
        answers = admin.each(
            lambda client, left, some=some: dict(zip(some, ask(client, some, left), strict=True)),  # type: ignore[misc]
            lambda binding: f"ACL {binding_text(binding)} {how}",
            lambda _: on_cluster("ALTER"),
        )
        refused |= {binding: str(answer) for binding, answer in answers.items() if isinstance(answer, Exception)}
    return refused


def _theirs(binding: AclBinding, kind: Any) -> Any:
    return kind(
        ResourceType[binding.resource],
        binding.name,
        ResourcePatternType[binding.pattern],
        binding.principal,
        binding.host,
        AclOperation[binding.operation],
        AclPermissionType[binding.permission],
    )


def _ours(entry: AclEntry) -> AclBinding | None:
    """None if this client doesn't know the kind, and so could not create the binding."""
    try:
        return AclBinding(
            ResourceType(entry.resource).name,
            ResourcePatternType(entry.pattern).name,
            entry.name,
            entry.principal,
            entry.host,
            AclOperation(entry.operation).name,
            AclPermissionType(entry.permission).name,
        )
    except ValueError:
        return None
