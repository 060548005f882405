"""SCRAM logins with a limit: checks how much work the broker asks for before doing it.

With few iterations, a fake broker gets a proof from which it soon guesses the password; very many would block a thread for
hours. The lower bound is Kafka's own (ScramMechanism: 4,096 for both mechanisms, and Java's client refuses less), the upper
one librdkafka's; Kafka's brokers store 16,384 at most. librdkafka's own logins have no lower bound and no setting for one.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from typing import Final

from aiokafka.conn import ScramAuthenticator

LEAST_ITERATIONS: Final = 4_096
MOST_ITERATIONS: Final = 1_000_000
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


class ScramProblem(Exception):
    """Why this side refuses a login, in half a sentence after the broker's name, without quoting the broker."""


class BoundedScram(ScramAuthenticator):  # type: ignore[misc] # aiokafka has no types
    """aiokafka's authenticator, but it checks the broker's messages first. `step` raises ScramProblem."""

    def process_server_first_message(self, server_first: str) -> None:
        """Checks the broker's nonce, salt and number of iterations."""
        attributes = _attributes(server_first)
        nonce, salt, iterations = attributes.get("r", ""), attributes.get("s", ""), attributes.get("i", "")
        if not nonce.startswith(self._nonce) or not _is_base64(salt) or not _NUMBER.fullmatch(iterations):
            raise ScramProblem("the broker's first message is not that of a SCRAM login")
        if not LEAST_ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
            raise ScramProblem(
                f"the broker asks for {int(iterations)} iterations, but {LEAST_ITERATIONS} to {MOST_ITERATIONS} are "
                "allowed. Set the user's credentials again with an allowed number (kafka-configs.sh: iterations=8192)"
            )
        super().process_server_first_message(server_first)

    def process_server_final_message(self, server_final: str) -> None:
        """Checks the broker's proof that it knows the password, too."""
        attributes = _attributes(server_final)
        if "e" in attributes:
            raise ScramProblem("the broker refuses the proof of the password")
        signature = attributes.get("v", "")
        if not _is_base64(signature) or not hmac.compare_digest(base64.b64decode(signature), self._server_signature):
            raise ScramProblem("the broker doesn't prove that it knows the password; is it the right broker?")


def _attributes(message: str) -> dict[str, str]:
    """The attributes `r=…,s=…,i=…` by letter; none with a mandatory extension (`m=`), because none is known here."""
    found = {name: value for name, equals, value in (part.partition("=") for part in message.split(",")) if equals}
    return {} if "m" in found else found


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False
