"""Connect's Basic authentication extension: every existing resource needs a name and password from a users file.

As in Connect, it runs after routing (an unknown path is 404 without credentials), answers 401 without WWW-Authenticate,
and accepts everybody if the users file is empty.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import secrets
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import javaproperties

from mirror_connect.app.config.jaas_file import PROPERTY, find_jaas_file, login_modules, read_text
from mirror_connect.app.errors import ConnectError, StartupError, Unauthorized

log = logging.getLogger(__name__)

LOGIN_MODULE: Final = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
SECTION: Final = "KafkaConnect"
_BASE64: Final = frozenset(string.ascii_letters + string.digits + "+/=")


class Authenticator(Protocol):
    """Checks the credentials of requests."""

    def check(self, authorization: str | None) -> None:
        """Raises Unauthorized unless the value of the Authorization header is valid."""


class UsersFile:
    """Names and passwords. The time of a check depends on neither."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._key = secrets.token_bytes(32)
        self._digests = {name: self._digest(password) for name, password in passwords.items()}

    def check(self, authorization: str | None) -> None:
        """See Authenticator."""
        if not self._digests:
            return
        name, password = _credentials(authorization)
        # An unknown name costs as much time as a wrong password.
        wanted = self._digests.get(name, self._key)
        if not hmac.compare_digest(wanted, self._digest(password)):
            raise Unauthorized

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(errors="surrogatepass"), "sha256")


def authenticators(extension_classes: Sequence[str], environment: Mapping[str, str]) -> list[Authenticator]:
    """The authenticators that `rest.extension.classes` names, which has been checked; StartupError for unreadable files."""
    return [_from_environment(environment) for _ in extension_classes]


def _from_environment(environment: Mapping[str, str]) -> UsersFile:
    jaas = find_jaas_file(environment)
    if jaas is None:
        raise StartupError(
            f"Basic authentication needs a login configuration file; name it with {PROPERTY}FILE in the environment "
            "variable KAFKA_OPTS"
        )
    modules = login_modules(jaas, SECTION)
    if len(modules) != 1 or modules[0].class_name != LOGIN_MODULE:
        raise StartupError(f"Section {SECTION} of {jaas} must hold exactly one login module, {LOGIN_MODULE}")
    users = modules[0].options.get("file", "").strip()
    if not users:
        raise StartupError(f'Section {SECTION} of {jaas} does not name the users file; add file="PATH" to the module')
    return UsersFile(_read_users(Path(users)))


def _read_users(path: Path) -> dict[str, str]:
    text = read_text(path, "The users file")
    try:
        users: dict[str, str] = javaproperties.loads(text)
    except ValueError:
        raise StartupError(f"The users file {path} is malformed: it has a broken \\u escape") from None
    if not users:
        log.warning("The users file %s is empty: everybody may use the REST interface", path)
    return users


def _credentials(authorization: str | None) -> tuple[str, str]:
    scheme, space, encoded = (authorization or "").partition(" ")
    if not space or scheme.lower() != "basic":
        raise Unauthorized
    name, colon, password = _decoded(encoded).partition(":")
    if not colon or not name:
        raise Unauthorized
    return name, password


def _decoded(encoded: str) -> str:
    # Connect answers 500 here, with these texts.
    illegal = next((character for character in encoded if character not in _BASE64), None)
    if illegal is not None:
        raise ConnectError(f"Illegal base64 character {ord(illegal):x}")
    try:
        padded = encoded + "=" * (-len(encoded) % 4)
        return base64.b64decode(padded, validate=True).decode(errors="replace")
    except (binascii.Error, ValueError):
        raise ConnectError("Input byte array has wrong 4-byte ending unit") from None
