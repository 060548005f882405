"""The bodies of /admin/links …, which are of our own; openapi.yaml is made from their texts. A null is unknown, never 0.

They only describe: an answer may have thousands of rows, and is made without them (links.py).
"""

from __future__ import annotations

from pydantic import Field

from mirror_connect.app.rest.bodies import Body

TIME_MS = 1_764_108_000_000


class AnsweringWorkerBody(Body):
    """The worker that answers."""

    id: str = Field(examples=["10.0.0.1:8083"])
    version: str = Field(examples=["0.1.0"], description="Of mirror-connect")
    kafka_cluster_id: str | None = Field(description="Null in dedicated mode, where each flow has its own")
    time_ms: int = Field(examples=[TIME_MS])
    read_only: bool = Field(description="Whether this REST interface changes nothing")


class LinkTaskBody(Body):
    """A task."""

    id: int = Field(examples=[0])
    state: str = Field(examples=["RUNNING"])
    since_ms: int | None = Field(
        examples=[TIME_MS], description="Since when it has this state, as the status topic tells it"
    )
    worker_id: str
    trace: str | None


class LinkConnectorBody(Body):
    """A connector of a link."""

    name: str = Field(examples=["MirrorSourceConnector"])
    class_: str = Field(alias="class", examples=["org.apache.kafka.connect.mirror.MirrorSourceConnector"])
    kind: str | None = Field(description="source, checkpoint or heartbeat")
    state: str = Field(examples=["RUNNING"])
    since_ms: int | None = Field(
        examples=[TIME_MS], description="Since when it has this state, as the status topic tells it"
    )
    worker_id: str
    trace: str | None
    tasks: list[LinkTaskBody]


class LagBody(Body):
    """How far the target is behind the source."""

    records: int | None = Field(description="The sum of the partitions whose lag is known")
    seconds: float | None = Field(description="The age of the oldest record that is not on the target; 0 at rest")
    partitions_behind: int
    partitions_unknown: int = Field(description="Partitions whose lag is not known")


class RateBody(Body):
    """What the target acknowledged, each second: the mean of the last 15 s."""

    records: float
    bytes: float


class LatencyBody(Body):
    """From a record's timestamp to the target's acknowledgement, of the last minute."""

    p50: float
    p99: float
    max: float


class LinkProblemBody(Body):
    """A problem that lasts."""

    code: str = Field(examples=["PARTITION_UNREADABLE"])
    subject: str = Field(examples=["source partition orders-0"])
    line: str
    connector: str
    task: int | None = Field(description="Null for a problem of the connector itself")
    since_ms: int = Field(examples=[TIME_MS])


class LinkBody(Body):
    """All connectors from one cluster to another."""

    name: str = Field(examples=["A->B"])
    source: str = Field(examples=["A"])
    target: str = Field(examples=["B"])
    state: str = Field(
        description="Of the worst connector or task: FAILED, UNASSIGNED, RESTARTING, PAUSED, STOPPED, RUNNING"
    )
    leads: bool = Field(description="Whether this worker leads the group")
    leader_url: str | None = Field(description="The other worker that leads it")
    trace: str | None = Field(description="Why a flow of dedicated mode is not up")
    connectors: list[LinkConnectorBody]
    topics: int
    partitions: int
    lag: LagBody
    rate: RateBody | None
    latency_ms: LatencyBody | None
    filtered: int | None = Field(
        description="Records that transformations have dropped since the workers started; null if it is not known"
    )
    skipped: int | None = Field(
        description="Records that were left out since the workers started, by errors.tolerance=all or "
        "on.oversize.record=skip; null if it is not known"
    )
    groups: int
    since_ms: int = Field(description="Since when it has this state, as far as this process has seen")
    problems: list[LinkProblemBody] | None = Field(description="Null while no worker tells any")
    more_problems: int
    last_report_ms: int | None = Field(description="When one of its tasks reported last")
    unknown_workers: list[str] = Field(
        examples=[["10.0.0.2:8083"]],
        description="Other workers with running tasks of it that don't tell their figures. The sums leave these tasks out, "
        "and partitions_unknown counts their partitions",
    )


class LinksBody(Body):
    """GET /admin/links."""

    worker: AnsweringWorkerBody
    links: list[LinkBody]


class LinkTopicBody(Body):
    """A source topic of a link."""

    topic: str
    remote_topic: str | None
    partitions: int
    lag: LagBody
    rate: RateBody | None
    latency_ms: LatencyBody | None
    problem: str | None = Field(description="The line of the first problem with it")


class LinkTopicsBody(Body):
    """GET /admin/links/{link}/topics."""

    total: int = Field(description="Of all pages")
    topics: list[LinkTopicBody]


class LinkPartitionBody(Body):
    """A source partition."""

    partition: int
    source_offset: int | None = Field(description="All records up to this offset are on the target; -1 if none is")
    log_end: int | None = Field(description="The offset after the last record that may be read")
    lag_records: int | None
    lag_seconds: float | None
    records: int | None = Field(description="Acknowledged since the worker that copies it has started")
    bytes: int | None
    task: int
    problem: str | None


class LinkPartitionsBody(Body):
    """GET /admin/links/{link}/topics/{topic}."""

    topic: str
    remote_topic: str | None
    partitions: list[LinkPartitionBody]


class LinkGroupBody(Body):
    """A consumer group, and what its consumers would get if they moved to the target now."""

    group: str
    partitions: int | None
    read_again: int | None = Field(description="Records that they have read, and would read once more")
    skipped: int | None = Field(description="Records that they have not read, and would not get")
    untranslated: int | None = Field(description="Partitions where they would begin by their auto.offset.reset")
    checkpoint_latency_ms: float | None
    synced_ms: int | None = Field(description="When the target's committed offsets were last found or made equal")
    topics: list[str]


class LinkGroupsBody(Body):
    """GET /admin/links/{link}/groups."""

    total: int = Field(description="Of all pages")
    groups: list[LinkGroupBody]


class HistoryPointBody(Body):
    """A link at one moment; records, bytes and latencies are those of the step before it."""

    time_ms: int = Field(examples=[TIME_MS])
    lag_records: int | None
    lag_seconds: float | None
    records: float | None = Field(description="Per second")
    bytes: float | None = Field(description="Per second")
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    state: str


class LinkHistoryBody(Body):
    """GET /admin/links/{link}/history."""

    step_s: int = Field(examples=[10])
    points: list[HistoryPointBody]
