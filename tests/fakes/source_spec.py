"""What a worker hands to a source task that copies from cluster A to cluster B: between brokers, fakes or models alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mirror_connect.connectors.task_protocol import TaskPartition, TaskSpec

CLASS: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
OFFSETS: Final = "connect-offsets"
WITHOUT_SYNCS: Final = {"emit.offset-syncs.enabled": "false"}


def source_spec(
    source: Mapping[str, str],
    target: Mapping[str, str],
    assigned: Iterable[TaskPartition],
    *,
    config: Mapping[str, str] = WITHOUT_SYNCS,
    connector: str = "c",
    task: int = 0,
    run_id: str = "run",
    assignment_version: int = 1,
    offsets_partitions: int = 1,
    commit_interval_ms: int = 60_000,
    target_consumer: Mapping[str, str] | None = None,
) -> TaskSpec:
    """`source` and `target`: client properties of the two clusters, by which positions are read as well unless told.

    `config`: what the connector's has besides; without it no offset syncs are written.
    """
    return TaskSpec(
        run_id=run_id,
        connector=connector,
        task=task,
        connector_class=CLASS,
        config={
            "name": connector,
            "connector.class": CLASS,
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": source["bootstrap.servers"],
            **config,
        },
        source={"auto.offset.reset": "earliest", **source},
        target=target,
        source_alias="A",
        target_alias="B",
        assigned=tuple(assigned),
        assignment_version=assignment_version,
        transactional_id=f"connect-{connector}-{task}",
        offsets_topic=OFFSETS,
        offsets_partitions=offsets_partitions,
        commit_interval_ms=commit_interval_ms,
        target_consumer=target if target_consumer is None else target_consumer,
    )
