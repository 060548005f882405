"""SCRAM logins: what the broker may ask for, and its proof."""

from __future__ import annotations

import asyncio
import base64

import pytest

from mirror_connect.kafka_io.client.scram import LEAST_ITERATIONS, MOST_ITERATIONS, BoundedScram, ScramProblem

SALT = base64.b64encode(b"salt").decode()


class Login:
    """A login after the client's first message."""

    def __init__(self) -> None:
        self.scram = BoundedScram(
            loop=asyncio.get_running_loop(),
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="u",
            sasl_plain_password="p",
        )
        self.nonce = self.scram.first_message().split("r=")[1]

    def answer(self, *, nonce: str | None = None, salt: str = SALT, iterations: object = LEAST_ITERATIONS) -> None:
        self.scram.process_server_first_message(f"r={nonce or self.nonce + 'x'},s={salt},i={iterations}")


async def test_the_least_iterations_are_accepted() -> None:
    Login().answer()


@pytest.mark.parametrize("iterations", [1, LEAST_ITERATIONS - 1, MOST_ITERATIONS + 1, 10**17])
async def test_iterations_outside_the_limits_are_refused(iterations: int) -> None:
    with pytest.raises(ScramProblem, match=f"asks for {iterations} iterations"):
        Login().answer(iterations=iterations)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"nonce": "another"}, id="nonce"),
        pytest.param({"salt": "*"}, id="salt"),
        pytest.param({"salt": ""}, id="no_salt"),
        pytest.param({"iterations": "-4096"}, id="negative"),
        pytest.param({"iterations": "9" * 19}, id="endless_number"),
        pytest.param({"iterations": f"{LEAST_ITERATIONS},m=x"}, id="mandatory_extension"),
    ],
)
async def test_an_answer_of_another_form_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ScramProblem, match="first message is not that of a SCRAM login"):
        Login().answer(**wrong)


async def test_the_brokers_proof_is_checked() -> None:
    login = Login()
    login.answer()
    login.scram._server_signature = b"proof"
    login.scram.process_server_final_message("v=" + base64.b64encode(b"proof").decode())
    for wrong in ("v=" + base64.b64encode(b"other").decode(), "v=*", "v=", ""):
        with pytest.raises(ScramProblem, match="doesn't prove"):
            login.scram.process_server_final_message(wrong)
    with pytest.raises(ScramProblem, match="refuses the proof of the password"):
        login.scram.process_server_final_message("e=invalid-proof")
