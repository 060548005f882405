"""SCRAM logins whose work the broker can't set as it likes: what it asks for is checked before it is done.

Few iterations would give whoever stands in for a broker a proof from which the password is soon guessed; very many would
hold a thread for hours. The lower bound is Kafka's own (ScramMechanism: 4,096 for both mechanisms, and Java's client
refuses less), the upper one librdkafka's; Kafka's brokers store 16,384 at most. librdkafka's own logins have no lower bound,
and no way to set one.
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
    """Why a login is given up here: the end of a sentence that has named the broker. Nothing of its answer is quoted."""


class BoundedScram(ScramAuthenticator):  # type: ignore[misc] # aiokafka has no types
    """aiokafka's, with the broker's messages checked first. `step` raises ScramProblem."""

    def process_server_first_message(self, server_first: str) -> None:
        """Salt, nonce and iterations, as the broker has them."""
        told = _attributes(server_first)
        nonce, salt, iterations = told.get("r", ""), told.get("s", ""), told.get("i", "")
        if not nonce.startswith(self._nonce) or not _is_base64(salt) or not _NUMBER.fullmatch(iterations):
            raise ScramProblem("the broker's first message is not that of a SCRAM login")
        if not LEAST_ITERATIONS <= int(iterations) <= MOST_ITERATIONS:
            raise ScramProblem(
                f"the broker asks for {int(iterations)} iterations, and {LEAST_ITERATIONS} to {MOST_ITERATIONS} are taken; "
                "store the user's credentials anew with a number between (kafka-configs.sh: iterations=8192)"
            )
        super().process_server_first_message(server_first)

    def process_server_final_message(self, server_final: str) -> None:
        """The broker's proof that it knows the password, too."""
        told = _attributes(server_final)
        if "e" in told:
            raise ScramProblem("the broker refuses the proof of the password")
        signature = told.get("v", "")
        if not _is_base64(signature) or not hmac.compare_digest(base64.b64decode(signature), self._server_signature):
            raise ScramProblem("the broker doesn't prove that it knows the password; is it the right broker?")


def _attributes(message: str) -> dict[str, str]:
    """`r=…,s=…,i=…` by letter; what has another form is left out, and a mandatory extension (`m=`) is one we don't know."""
    found = {name: value for name, equals, value in (part.partition("=") for part in message.split(",")) if equals}
    return {} if "m" in found else found


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False
