"""A node of dedicated mode as one process tree: started by bin/connect-mirror-maker.sh with an mm2.properties file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from deploy.local import LocalCluster
from tests.e2e.product import PATIENCE_S, Product
from tests.paths import ROOT
from tests.waiting import WaitTimedOut, wait_for_state

SOURCE, CHECKPOINT, HEARTBEAT = (f"Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat"))
# What a test does not wait ten minutes for, and one broker has room for.
QUICK: Final = {
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.topic.acls.enabled": "false",
    **dict.fromkeys(
        (
            "replication.factor",
            "offset-syncs.topic.replication.factor",
            "checkpoints.topic.replication.factor",
            "heartbeats.topic.replication.factor",
            "config.storage.replication.factor",
            "offset.storage.replication.factor",
            "status.storage.replication.factor",
        ),
        "1",
    ),
}


def mm2_properties(
    clusters: Mapping[str, LocalCluster | Mapping[str, str]], flows: Collection[str], more: Mapping[str, str]
) -> dict[str, str]:
    """An mm2.properties file. A cluster may also be its client properties; `flows` are those enabled, as `A->B`."""
    properties = {"clusters": ", ".join(clusters)}
    for alias, cluster in clusters.items():
        login = cluster.client_properties() if isinstance(cluster, LocalCluster) else cluster
        properties |= {f"{alias}.{name}": value for name, value in login.items()}
    return properties | {f"{flow}.enabled": "true" for flow in flows} | QUICK | dict(more)


class Dedicated(Product):
    """One node. Methods of connectors get `SOURCE/TARGET/CONNECTOR` if the internal REST is on."""

    def __init__(
        self,
        target: LocalCluster,
        properties: Mapping[str, str],
        *,
        internal_rest: bool = True,
        name: str = "mm2",
        arguments: Sequence[str] = (),
        command: Path = ROOT / "bin" / "connect-mirror-maker.sh",
    ) -> None:
        super().__init__(target, group=name, command=[command], arguments=arguments)
        rest = {"dedicated.mode.enable.internal.rest": "true", "listeners": f"http://127.0.0.1:{self.port}"}
        self.properties = {**properties, **(rest if internal_rest else {})}

    def start(self, seconds: float = PATIENCE_S) -> Self:
        """Starts it and waits until its first flow is up."""
        said = self.log_text().count("MirrorMaker is up with")
        self.launch()

        def up() -> bool:
            self.check_alive()
            return self.log_text().count("MirrorMaker is up with") > said

        try:
            wait_for_state(up, "the node is up", seconds)
        except WaitTimedOut as error:
            raise WaitTimedOut(f"{error}; its log ends with:\n{self.log_tail()}") from None
        return self

    def connector_path(self, name: str) -> str:
        """`A/B/MirrorSourceConnector` below the internal REST."""
        source, target, connector = name.split("/")
        return f"/{source}/{target}/connectors/{connector}"

    def wait_logged(self, text: str, seconds: float = PATIENCE_S) -> str:
        """Waits until a line of the log has this text; the line."""

        def lines() -> list[str]:
            return [line for line in self.log_text().splitlines() if text in line]

        try:
            wait_for_state(lambda: bool(lines()), f"the log has {text!r}", seconds)
        except WaitTimedOut as error:
            raise WaitTimedOut(f"{error}; its log ends with:\n{self.log_tail()}") from None
        return lines()[0]
