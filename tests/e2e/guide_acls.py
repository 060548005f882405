"""The kafka-acls.sh commands of docs/guide/security.md: as ACLs, and run by Kafka's own tool."""

from __future__ import annotations

import itertools
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from deploy.local import LocalCluster
from deploy.local.kafka_tools import run_tool
from tests.e2e.guide_pages import read_page
from tests.e2e.rights_table import Row
from tests.paths import TESTS

# Addresses of the page, each with the cluster that it is of.
SOURCE, TARGET = "a-kafka:9093", "b-kafka:9093"
ADMIN: Final = "admin.properties"
BEGINS: Final = ("on_a", "on_b")
_KINDS: Final = {
    "--topic": "topic",
    "--group": "group",
    "--transactional-id": "transactional id",
    "--cluster": "cluster",
}
# In the words of the tool, in the place of the script: a line of arguments for each command.
_RECORDER: Final = "kafka-acls.sh() { printf '%q ' \"$@\"; echo; }\n"


def acl_commands() -> list[list[str]]:
    """The arguments of each kafka-acls.sh that the page's commands start, as the shell expands them."""
    commands = [each for each in read_page("security").commands if each.startswith(BEGINS)]
    script = _RECORDER + "\n".join(commands)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=180, check=True)
    return [shlex.split(line) for line in done.stdout.splitlines()]


def granted() -> set[tuple[str, str, str, str, str]]:
    """Address, login, operation, kind and name of each right that they grant; names as in the tables of docs/rights.md."""
    return {right for command in acl_commands() for right in _rights(command)}


def of_row(row: Row, address: str, login: str) -> tuple[str, str, str, str, str]:
    """The same of a row of these tables."""
    return address, login, row.operation, row.kind, row.name


def grant_all(source: LocalCluster, target: LocalCluster) -> None:
    """Runs all of them."""
    with tempfile.TemporaryDirectory(prefix="acls-") as name:
        lines = []
        for command in acl_commands():
            cluster = source if SOURCE in command else target
            admin = cluster.internal_properties()
            places = {SOURCE: admin["bootstrap.servers"], TARGET: admin["bootstrap.servers"]}
            file = Path(name) / f"{cluster.name}.properties"
            file.write_text("".join(f"{key}={value}\n" for key, value in admin.items()))
            places[ADMIN] = str(file)
            lines.append("\t".join(places.get(each, each) for each in command))
        commands = Path(name) / "commands"
        commands.write_text("\n".join(lines))
        run_tool(str(TESTS / "java" / "RunAclCommands.java"), [str(commands)], properties={}, directory=Path(name))


def _rights(command: Sequence[str]) -> Iterator[tuple[str, str, str, str, str]]:
    def values(option: str) -> list[str]:
        return [value for name, value in itertools.pairwise(command) if name == option]

    (address,), (principal,) = values("--bootstrap-server"), values("--allow-principal")
    assert "--add" in command
    star = "*" if values("--resource-pattern-type") == ["prefixed"] else ""
    things = [
        (kind, f"{name}{star}") for option, kind in _KINDS.items() for name in values(option) if kind != "cluster"
    ]
    things += [("cluster", "")] if "--cluster" in command else []
    for operation, (kind, name) in itertools.product(values("--operation"), things):
        # AlterConfigs is ALTER_CONFIGS in the tables.
        words = "".join(f"_{each}" if each.isupper() else each for each in operation).lstrip("_").upper()
        yield address, principal.removeprefix("User:"), words, kind, name
