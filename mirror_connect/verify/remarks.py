"""What is to be known of a copy without being a fault: what one side has no longer, and what is there again. Words only."""

from __future__ import annotations

from mirror_connect.verify.findings import Findings
from mirror_connect.verify.plan import Job


def remarks(job: Job, found: Findings) -> list[str]:
    """The lines for a partition that has been compared."""
    lines = []
    if found.before_source_start:
        lines.append(
            f"{_are(found.before_source_start, 'of the target')} of source offsets before {job.start:,}, where the "
            f"source's log begins now: not comparable{_never_copied(job, found)}"
        )
    if found.before_target_start:
        lines.append(
            f"{_are(found.before_target_start, 'of the source')} without their copies, as the target's log begins at "
            f"offset {job.target_start:,} now: not comparable"
        )
    if found.repeated:
        lines.append(repeats(found.repeated, found.equal))
    return lines


def _never_copied(job: Job, found: Findings) -> str:
    """Both logs gave out offsets from 0 on: what the source had more of did not go through the copier."""
    more = job.start - (job.asked_from + found.before_source_start)
    if more <= 0:
        return ""
    return f"; of those source offsets {more:,} or more were never copied, or held no record"


def gone(from_source: int, from_target: int) -> list[str]:
    """What of a whole link is on one side only."""
    lines = []
    if from_source:
        lines.append(f"{_are(from_source, 'of the target')} gone from the source")
    if from_target:
        lines.append(f"{_are(from_target, 'of the source')} gone from the target")
    return lines


def repeats(repeated: int, equal: int) -> str:
    """How many are there again, and where they may come from: a restart seldom repeats half of what there is."""
    why = "a restart repeats some"
    if 2 * repeated >= equal:
        why = "so many: another connector or worker copies the same topic there, or the link began it anew"
    return f"{_are(repeated)} there again, so more than once ({why})"


def _are(count: int, whose: str = "") -> str:
    return " ".join(filter(None, (f"{count:,} record" + "s" * (count != 1), whose, "is" if count == 1 else "are")))
