"""Lines about a copy that are no faults: records that only one side still has, and duplicates."""

from __future__ import annotations

from mirror_connect.verify.findings import Findings
from mirror_connect.verify.plan import Job


def remarks(job: Job, found: Findings) -> list[str]:
    """The lines for a partition that has been compared."""
    lines = []
    if found.before_source_start:
        lines.append(
            f"not comparable: {amount(found.before_source_start, 'target record')} from source offsets below "
            f"{job.start:,}, where the source's log now begins{_never_copied(job, found)}"
        )
    if found.before_target_start:
        lines.append(
            f"not comparable: {amount(found.before_target_start, 'source record')} without copies: the target's log now "
            f"begins at offset {job.target_start:,}"
        )
    if found.repeated:
        lines.append(repeats(found.repeated, found.equal))
    return lines


def _never_copied(job: Job, found: Findings) -> str:
    """Both logs count offsets from 0. So the source's surplus was never copied, or held no record."""
    more = job.start - (job.asked_from + found.before_source_start)
    if more <= 0:
        return ""
    return f"; at least {more:,} of those source offsets were never copied or held no record"


def gone(from_source: int, from_target: int) -> list[str]:
    """Lines about the records of a whole link that are on one side only."""
    lines = []
    if from_source:
        lines.append(f"{amount(from_source, 'target record')} no longer on the source")
    if from_target:
        lines.append(f"{amount(from_target, 'source record')} no longer on the target")
    return lines


def repeats(repeated: int, equal: int) -> str:
    """The number of duplicates, and their likely cause: a restart seldom repeats half of all records."""
    why = "a restart repeats some records, as does another connector to the same topic"
    if 2 * repeated >= equal:
        why = "too many for a restart: another connector copies the same topic there, or the link started over"
    return f"{amount(repeated, 'duplicate')} on the target ({why})"


def amount(count: int, noun: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
