"""The tables of rights in the documentation as ACLs: what it says is what the tests grant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from deploy.local import LocalCluster
from tests.paths import ROOT

RIGHTS: Final = ROOT / "docs" / "rights.md"
HEAD: Final = "| right |"
CLUSTER: Final = "kafka-cluster"
_KINDS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
_ROW: Final = re.compile(r"\| ([A-Z_, ]+) \| (topic|group|transactional id|cluster)(?: `([^`]+)`)? \| (.+) \|")


class Row(NamedTuple):
    """One right of one user. `user`: as the heading has it; `name`: with `*` behind a prefix, empty for the cluster."""

    user: str
    operation: str
    kind: str
    name: str
    needed: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.kind} {self.name}".rstrip()

    def binding(self, login: str, *, deny: bool = False, name: str | None = None) -> AclBinding:
        """The ACL for a login; `name`: of one thing that the row covers."""
        wanted = self.name if name is None else name
        pattern = ResourcePatternType.PREFIXED if wanted.endswith("*") else ResourcePatternType.LITERAL
        permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
        thing = wanted.rstrip("*") or CLUSTER
        return AclBinding(
            _KINDS[self.kind], thing, pattern, f"User:{login}", "*", AclOperation[self.operation], permission
        )


def rows(page: Path = RIGHTS) -> list[Row]:
    """All rights of the tables below `HEAD`; a row of several operations is several of them."""
    found, user, inside = [], "", False
    for line in page.read_text().splitlines():
        if line.startswith("## "):
            user = line.removeprefix("## ").lower()
        inside = line.startswith(HEAD) or (inside and line.startswith("|"))
        if not inside or line.startswith((HEAD, "| ---")):
            continue
        match = _ROW.fullmatch(line)
        assert match is not None, f"no row: {line}"
        found += [Row(user, each, match[2], match[3] or "", match[4]) for each in match[1].split(", ")]
    assert found, f"{page} has no rights"
    return found


def grant(cluster: LocalCluster, bindings: Iterable[AclBinding]) -> None:
    """Creates ACLs."""
    for done in cluster.admin().create_acls(list(bindings)).values():
        done.result(180)


def revoke(cluster: LocalCluster, binding: AclBinding) -> None:
    """Deletes exactly this one."""
    what = (binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host)
    wanted = AclBindingFilter(*what, binding.operation, binding.permission_type)
    for done in cluster.admin().delete_acls([wanted]).values():
        assert done.result(180)
