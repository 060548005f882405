"""In what two records differ, as a line for people. Contents are never shown: they may be anybody's secrets."""

from __future__ import annotations

from mirror_connect.verify.records import Record, fields


def alike(one: Record, other: Record, *, same_key: bool = False) -> bool:
    """Whether it may be the same record with something changed in it: its time and most of it are as they were."""
    first, second = fields(one[2]), fields(other[2])
    if same_key and (first.get("key") != second.get("key") or one[1] != other[1]):
        return False
    same = (one[1] == other[1]) + sum(first.get(name) == second.get(name) for name in ("key", "value", "headers"))
    return same >= 2


def difference(source: Record, target: Record, *, timestamps: bool) -> str:
    """`value differs from its byte 17 on (1024 bytes)`; several are joined by semicolons."""
    lines = []
    if timestamps and source[1] != target[1]:
        lines.append(f"timestamp {target[1]} instead of {source[1]}")
    first, second = fields(source[2]), fields(target[2])
    for name in first.keys() | second.keys():
        if first.get(name) != second.get(name):
            lines.append(_difference(name, first.get(name), second.get(name)))
    return "; ".join(sorted(lines)) or "its encoding differs"


def _difference(name: str, source: bytes | None, target: bytes | None) -> str:
    if source is None:
        return f"{name} of {len(target or b'')} bytes instead of null"
    if target is None:
        return f"{name} null instead of {len(source)} bytes"
    at = next((at for at, (a, b) in enumerate(zip(source, target, strict=False)) if a != b), None)
    if len(source) != len(target):
        where = min(len(source), len(target)) if at is None else at
        return f"{name} of {len(target)} bytes instead of {len(source)}, different from byte {where} on"
    wrong = sum(a != b for a, b in zip(source, target, strict=True))
    return f"{name} differs in {wrong} of {len(source)} bytes, the first is byte {at}"
