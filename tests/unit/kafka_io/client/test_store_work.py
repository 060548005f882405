"""The work that a store's encryption asks for is read before the store is opened, and too much is refused."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.store_work import MOST_ITERATIONS, MOST_SCRYPT, work_problem
from tests.fakes.certificates import party
from tests.fakes.encrypted_stores import (
    PASSWORD,
    TWO_THOUSAND_MILLION,
    by_pbkdf2,
    by_scrypt,
    jceks,
    locked_key,
    opened,
    pem,
    pkcs12,
)


@pytest.mark.parametrize(
    ("der", "reason"),
    [
        pytest.param(by_pbkdf2(MOST_ITERATIONS), None, id="iterations_at_the_limit"),
        pytest.param(by_pbkdf2(MOST_ITERATIONS + 1), "asks for 5000001 iterations; at most 5000000", id="iterations"),
        pytest.param(pkcs12(MOST_ITERATIONS), None, id="a_stores_mac_at_the_limit"),
        pytest.param(pkcs12(MOST_ITERATIONS + 1), "asks for 5000001 iterations; at most 5000000", id="a_stores_mac"),
        pytest.param(by_scrypt(MOST_SCRYPT >> 3, 1), None, id="scrypt_at_the_limit"),
        pytest.param(by_scrypt(MOST_SCRYPT >> 2, 1), "asks for scrypt of N·r·p 8388608; at most 4194304", id="scrypt"),
    ],
)
def test_work_above_the_limit_is_a_problem(der: bytes, reason: str | None) -> None:
    found = work_problem(der)
    assert found == reason if reason is None else reason in (found or "")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["pbkdf2", "scrypt_time", "scrypt_memory", "pkcs12_mac", "jceks"])
def test_a_store_that_asks_for_endless_work_is_refused_while_everybody_else_goes_on(tmp_path: Path, name: str) -> None:
    certificate = party("own", None, ca=True).pem
    as_store = {"type": "PKCS12", "password": PASSWORD}
    content, more = {
        "pbkdf2": (pem(by_pbkdf2(TWO_THOUSAND_MILLION)) + certificate, {"type": "PEM"}),
        "scrypt_time": (pem(by_scrypt(1 << 14, 1 << 16)) + certificate, {"type": "PEM"}),
        "scrypt_memory": (pem(by_scrypt(1 << 24, 1)) + certificate, {"type": "PEM"}),
        "pkcs12_mac": (pkcs12(TWO_THOUSAND_MILLION), as_store),
        "jceks": (jceks(), {**as_store, "type": "JCEKS"}),
    }[name]
    longest, ended = 0.0, threading.Event()

    def watch() -> None:
        nonlocal longest
        last = time.monotonic()
        while not ended.wait(0.01):
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        with pytest.raises(ConfigError, match=r"(keystore\.location|key\.password): ") as caught:
            opened(tmp_path, "store", content, **more)
    finally:
        ended.set()
        watching.join()
    assert "its encryption asks for " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert longest < 5  # of the interpreter, because it keeps the lease


@pytest.mark.parametrize("iterations", [2_048, 600_000])
def test_iterations_that_are_in_use_are_taken(tmp_path: Path, iterations: int) -> None:
    own = party("own", None, ca=True)
    made = opened(tmp_path, "store", locked_key(own, iterations) + own.pem, type="PEM")
    assert made.pair is not None
    assert made.pair.key == own.key_pem()


def test_bytes_that_are_no_store_have_no_work_problem() -> None:
    noise = random.Random(7)
    for size in range(400):
        work_problem(noise.randbytes(size))
    whole = by_pbkdf2(TWO_THOUSAND_MILLION)
    assert [work_problem(whole[:size]) for size in range(20)] == [None] * 20
    assert work_problem(b"\x30\x80" * 100_000) is None
