"""Files of mm2.properties for tests, and what their findings look like."""

from __future__ import annotations

from pathlib import Path

from mirror_connect.app.dedicated.mm2_file import findings
from tests.contract.record_mm2_properties import ENVIRONMENT

BROKERS = "A.bootstrap.servers=a:9092\nB.bootstrap.servers=b:9092\n"
# Four lines; what is added begins on line 5.
ONE_FLOW = f"clusters=A,B\n{BROKERS}A->B.enabled=true\n"
IDENTITY = "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


def written(tmp_path: Path, text: str) -> Path:
    """The file, as Java reads it."""
    path = tmp_path / "mm2.properties"
    path.write_bytes(text.encode("iso-8859-1"))
    return path


def shown(tmp_path: Path, text: str, clusters: list[str] | None = None) -> list[str]:
    """`ERROR :5: …` for each finding, without the file's path."""
    path = written(tmp_path, text)
    found = findings(path, clusters, ENVIRONMENT)
    return [f"{each.severity} {each.shown.removeprefix(str(path))}" for each in found]
