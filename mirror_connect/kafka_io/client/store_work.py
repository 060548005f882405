"""Reads how much work it takes to open a store, without opening it: PBKDF2 iterations, the cost of scrypt.

So one line can say at once what is wrong. Encrypted parts are not read; the limits of the process that opens the store are
for these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

# Java refuses PKCS12 stores of more (PKCS12KeyStore); it writes 10,000, OpenSSL 2,048.
MOST_ITERATIONS: Final = 5_000_000
# The product of scrypt's N, r and p; OpenSSL's default is 131,072.
MOST_SCRYPT: Final = 1 << 22
_SEQUENCE, _INTEGER, _OCTETS, _OID = 0x30, 0x02, 0x04, 0x06
_CONSTRUCTED: Final = 0x20
_DEPTH: Final = 40
# Object identifiers without tag and length. The parameters of PBKDF2, Sun's JCEKS and PBES1 are salt and iterations.
_BY_ITERATIONS: Final = (bytes.fromhex("2a864886f70d01050c"), bytes.fromhex("2b060104012a021301"))
# Without their last byte.
_PBES1: Final = (bytes.fromhex("2a864886f70d0105"), bytes.fromhex("2a864886f70d010c01"))
_SCRYPT: Final = bytes.fromhex("2b06010401da47040b")


class _Element(NamedTuple):
    tag: int
    content: bytes

    @property
    def number(self) -> int:
        return int.from_bytes(self.content) if self.tag == _INTEGER else 0


def work_problem(der: bytes) -> str | None:
    """Why these bytes must not be opened: it would take too much work. None if it would not."""
    iterations, scrypt = 0, 0
    for parts in _sequences(der, 0):
        if parts[0].tag == _INTEGER and len(parts) == 3 and parts[2].tag == _SEQUENCE:  # a PKCS12 store with its MAC
            iterations = max([iterations, *(each.number for each in _elements(parts[2].content))])
        if parts[0].tag != _OID or len(parts) < 2:
            continue
        kind, numbers = parts[0].content, [each.number for each in _elements(parts[1].content)[1:]]
        if kind in _BY_ITERATIONS or kind[:-1] in _PBES1:
            iterations = max([iterations, *numbers[:1]])
        elif kind == _SCRYPT and len(numbers) >= 3:
            scrypt = max(scrypt, numbers[0] * numbers[1] * numbers[2])
    if iterations > MOST_ITERATIONS:
        return f"its encryption asks for {iterations} iterations; at most {MOST_ITERATIONS} are allowed. Use fewer"
    if scrypt > MOST_SCRYPT:
        return f"its encryption asks for scrypt of N·r·p {scrypt}; at most {MOST_SCRYPT} is allowed. Use less"
    return None


def _sequences(content: bytes, depth: int) -> Iterator[Sequence[_Element]]:
    for each in _elements(content):
        if each.tag == _SEQUENCE:
            parts = _elements(each.content)
            if parts:
                yield parts
        inner = each.tag & _CONSTRUCTED or (each.tag == _OCTETS and each.content[:1] == b"\x30")
        if inner and depth < _DEPTH:
            yield from _sequences(each.content, depth + 1)


def _elements(content: bytes) -> list[_Element]:
    """Consecutive DER elements, up to the first one that is not valid."""
    found: list[_Element] = []
    at = 0
    while at + 2 <= len(content):
        tag, size, at = content[at], content[at + 1], at + 2
        if size >= 0x80:
            more = size & 0x7F
            size, at = int.from_bytes(content[at : at + more]), at + more
        if size > len(content) - at:
            break
        found.append(_Element(tag, content[at : at + size]))
        at += size
    return found
