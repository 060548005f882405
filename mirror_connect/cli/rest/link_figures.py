"""What the commands about links ask for (`/admin/links`, which only mirror-connect has), and columns that they share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from rich.text import Text

from mirror_connect.cli.rest.figures import (
    NOTHING,
    bytes_rate,
    count,
    duration,
    member,
    milliseconds,
    plain,
    records_rate,
    state,
)
from mirror_connect.cli.rest.listings import Column, Row
from mirror_connect.cli.rest.selection import chosen_links
from mirror_connect.cli.rest.status_command import STOPPED_BY_ITSELF, cause_of
from mirror_connect.cli.rest.worker_client import WorkerClient

LINKS: Final = "/admin/links"
# Rows of one answer.
_PAGE: Final = 500


def copies(link: Row) -> bool:
    """Whether it has a source connector. One of heartbeats alone has no lag."""
    return "connectors" not in link or any(each.get("kind") == "source" for each in link["connectors"])


def _records(row: Row) -> str:
    return count(member(row, "lag", "records")) if copies(row) else NOTHING


def _behind(row: Row) -> str | Text:
    seconds = member(row, "lag", "seconds")
    if seconds == 0 and member(row, "lag", "partitions_unknown"):
        seconds = None  # nothing is missing of what is known, but not all is known
    if not copies(row):
        return NOTHING
    return Text(duration(seconds), style="" if seconds == 0 else "yellow" if seconds is None or seconds < 60 else "red")


LINK: Final = Column("link", lambda row: str(row["link"]))
STATE: Final = Column("state", lambda row: state(row.get("state")))
LAG_RECORDS: Final = Column("lag, records", _records, right=True)
LAG_SECONDS: Final = Column("lag, time", _behind, right=True)
PARTITIONS_BEHIND: Final = Column(
    "partitions behind", lambda row: count(member(row, "lag", "partitions_behind")), right=True, spare=True
)
PARTITIONS_UNKNOWN: Final = Column(
    "not known", lambda row: count(member(row, "lag", "partitions_unknown")), right=True, spare=True
)
RECORDS_RATE: Final = Column(
    "records", lambda row: records_rate(member(row, "rate", "records")), right=True, spare=True
)
BYTES_RATE: Final = Column("bytes", lambda row: bytes_rate(member(row, "rate", "bytes")), right=True, spare=True)
LATENCY_MAX: Final = Column("max", lambda row: latency(row, "max"), right=True, wide=True)
LATENCY_P50: Final = Column("p50", lambda row: latency(row, "p50"), right=True, wide=True)
LATENCY_P99: Final = Column("p99", lambda row: latency(row, "p99"), right=True, spare=True)


def links_of(worker: WorkerClient, asked: str | None) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The answer of /admin/links, and those of its links that are meant. Unsupported, UnknownName."""
    answer = worker.extension(LINKS)
    return answer, chosen_links(asked, answer.get("links") or [], worker.url)


def link_path(link: object, *more: str) -> str:
    """The path of a link's resource."""
    return "/".join((LINKS, *(quote(str(each), safe="") for each in (link, *more))))


def pages(worker: WorkerClient, path: str, members: str, limit: int, **query: object) -> Iterator[Row]:
    """Up to `limit` rows of a resource that answers in pages; all with 0. Yields each one."""
    offset = 0
    while True:
        size = min(_PAGE, limit - offset) if limit else _PAGE
        answer = worker.extension(path, **query, limit=size, offset=offset)
        rows = answer.get(members) or []
        yield from rows
        offset += len(rows)
        if not rows or offset >= (answer.get("total") or 0) or (limit and offset >= limit):
            return


def latency(row: Row, part: str) -> str:
    """Of the last minute; `-` without records."""
    return NOTHING if row.get("latency_ms") is None else milliseconds(member(row, "latency_ms", part))


def is_stopped_by_itself(link: Mapping[str, Any]) -> bool:
    """Whether a connector or task of the link has failed, or has no worker."""
    return link.get("state") in STOPPED_BY_ITSELF


def notes(links: Sequence[Row], worker_url: str) -> list[str]:
    """Why figures are unknown: a line for each link with workers that tell nothing, and for each that is not up."""
    lines = []
    for each in links:
        name = plain(each["name"])
        if each.get("trace"):
            lines.append(f"{name}: {'; '.join(cause_of(each['trace']))}")
        if silent := each.get("unknown_workers"):
            names = ", ".join(map(plain, silent))
            lines.append(
                f"{name}: tasks of it run at {names}, whose figures {worker_url} can't get; sums leave them out"
            )
        elif each.get("leads") is False and each.get("problems") is None:
            leader = each.get("leader_url")
            where = f"the leader is {leader}" if leader else "no leader is known yet"
            lines.append(f"{name}: this worker does not run it and knows no figures or problems; {where}")
    return lines
