"""What is left of key stores, trust stores and passwords in directories, in any form that a program may write."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from deploy.local.tls_material import TlsMaterial

# Of a store: from its middle, where no two stores are alike.
_PIECE: Final = 64
# What executors unpack of an archive is the code alone, but none of its files is larger.
_MOST: Final = 1 << 28


def needles(tls: TlsMaterial, *passwords: str) -> list[bytes]:
    """Of a client's key in each form, of the stores as they are, and of passwords."""
    key = load_pem_private_key(tls.client.key_pem.read_bytes(), None)
    assert isinstance(key, RSAPrivateKey)
    prime = key.private_numbers().p
    found = [prime.to_bytes((prime.bit_length() + 7) // 8), *(each.encode() for each in (tls.password, *passwords))]
    for form in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
        # Its middle, as the first and the last line of a key are like those of others.
        lines = key.private_bytes(Encoding.PEM, form, NoEncryption()).splitlines()
        found.append(lines[len(lines) // 2])
    for store in (tls.client.pkcs12, tls.client.jks, tls.truststore_pkcs12, tls.truststore_jks):
        content = store.read_bytes()
        found.append(content[len(content) // 2 :][:_PIECE])
    return found


def traces(root: Path, wanted: Sequence[bytes], without: Sequence[str] = ()) -> list[str]:
    """The files below a directory that have any of it; `without`: directories that are not looked into."""
    return [str(path) for path in _files(root, {str(root / each) for each in without}) if _has(path, wanted)]


def _files(root: Path, without: set[str]) -> Iterator[Path]:
    for directory, inner, names in os.walk(root):
        inner[:] = [each for each in inner if os.path.join(directory, each) not in without]
        yield from (Path(directory, name) for name in names)


def _has(path: Path, wanted: Sequence[bytes]) -> bool:
    # It may be removed meanwhile, and a socket has no content.
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink():
            assert path.stat().st_size < _MOST, path
            content = path.read_bytes()
            return any(each in content for each in wanted)
    return False
