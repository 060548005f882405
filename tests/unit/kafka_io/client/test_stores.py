"""Stores are opened in a process of their own, with limits; what goes wrong there is one line with the setting."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.connectors.config.bounded_file import UNREADABLE
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client import stores
from mirror_connect.kafka_io.client.stores import KeyPair, Store, certificates, private_key
from tests.fakes.certificates import party
from tests.fakes.encrypted_stores import PASSWORD, TWO_THOUSAND_MILLION, by_pbkdf2, opened, pem
from tests.paths import ROOT


def test_a_trust_store_and_a_key_store_are_read_as_pem(tmp_path: Path) -> None:
    own = party("own", None, ca=True)
    (tmp_path / "own.p12").write_bytes(own.p12(PASSWORD))
    (tmp_path / "trust.pem").write_text(own.pem)
    assert Store("ssl.truststore", str(tmp_path / "trust.pem"), "PEM", None).trusted() == own.pem
    pair = Store("ssl.keystore", str(tmp_path / "own.p12"), "PKCS12", PASSWORD).key_pair()
    assert pair == KeyPair(own.key_pem(), own.pem)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Gets an entry for each process that opens a store."""
    started: list[Any] = []
    run = subprocess.run

    def counted(*args: Any, **kwargs: Any) -> Any:
        started.append(args)
        return run(*args, **kwargs)

    monkeypatch.setattr(subprocess, "run", counted)
    return started


def test_a_store_is_opened_once_until_its_file_or_password_changes(tmp_path: Path, processes: list[Any]) -> None:
    first, second = party("first", None, ca=True), party("second", None, ca=True)
    file = tmp_path / "own.p12"
    file.write_bytes(first.p12(PASSWORD))
    store = Store("ssl.keystore", str(file), "PKCS12", PASSWORD)
    assert [store.key_pair().chain, store.key_pair().chain, len(processes)] == [first.pem, first.pem, 1]
    with pytest.raises(ConfigError):
        Store("ssl.keystore", str(file), "PKCS12", "wrong").key_pair()
    file.write_bytes(second.p12(PASSWORD))
    assert [store.key_pair().chain, len(processes)] == [second.pem, 3]


def test_a_store_that_could_not_be_opened_is_opened_again(tmp_path: Path, processes: list[Any]) -> None:
    file = tmp_path / "empty"
    file.write_text("nothing")
    for _ in range(2):
        with pytest.raises(ConfigError):
            Store("ssl.truststore", str(file), "PEM", None).trusted()
    assert len(processes) == 2


def test_only_so_many_stores_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_MOST_ANSWERED", 1)
    for name in ("a", "b"):
        certificates("ssl.truststore.certificates", party(name, None, ca=True).pem)
    assert len(stores._answered) == 1


def test_pem_texts_of_settings_are_read_the_same_way() -> None:
    own = party("own", None, ca=True)
    assert certificates("ssl.truststore.certificates", own.pem) == own.pem
    assert private_key("ssl.keystore.key", own.key_pem(PASSWORD), PASSWORD) == own.key_pem()


def test_a_problem_inside_the_process_is_raised_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("nothing")
    with pytest.raises(ConfigError) as caught:
        Store("ssl.truststore", str(tmp_path / "empty"), "PEM", None).trusted()
    assert str(caught.value) == (
        "Invalid ssl.truststore.location: it holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"
    )


def test_a_file_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigError, match=rf"/none for configuration ssl\.keystore\.location: {UNREADABLE}$"):
        Store("ssl.keystore", "/none", "JKS", None).key_pair()


def test_no_password_and_no_key_is_in_a_repr() -> None:
    assert PASSWORD not in repr(Store("ssl.keystore", "a", "JKS", PASSWORD, PASSWORD))
    assert PASSWORD not in repr(KeyPair(PASSWORD, "chain"))


def test_a_process_that_does_not_end_in_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(command: list[str], **given: Any) -> None:
        raise subprocess.TimeoutExpired(command, given["timeout"])

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(ConfigError, match=r"^Invalid ssl\.keystore\.key: opening it takes more than 60 s$"):
        private_key("ssl.keystore.key", "text", None)


def test_a_process_that_fails_is_reported_with_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirror_connect.kafka_io.client.stores._MODULE", "no.such.module")
    with pytest.raises(
        ConfigError, match=r"opening it ended the process that did it \(exit code 1, 1024 MiB of memory\)"
    ):
        certificates("ssl.truststore.certificates", "text")


def test_a_process_that_opens_a_store_is_shown_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    run = subprocess.run

    def watched(command: list[str], **given: object) -> object:
        seen.append((command, given["env"]))
        return run(command, **given)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", watched)
    monkeypatch.setenv("A_SECRET_OF_THE_WORKER", PASSWORD)
    own = party("own", None, ca=True)
    opened(tmp_path, "store", own.key_pem(PASSWORD) + own.pem, type="PEM")
    assert len(seen) == 1
    assert PASSWORD not in repr(seen)


@pytest.mark.timeout(120)
def test_work_that_is_not_seen_from_outside_is_ended_by_the_processs_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in an encrypted part of a PKCS12 store, where the parameters cannot be read.
    monkeypatch.setattr("mirror_connect.kafka_io.client.stores._MODULE", "tests.fakes.blind_store_process")
    monkeypatch.syspath_prepend(str(ROOT))
    certificate = party("own", None, ca=True).pem
    with pytest.raises(ConfigError, match="opening it takes more than 2 s of processor time"):
        opened(tmp_path, "store", pem(by_pbkdf2(TWO_THOUSAND_MILLION)) + certificate, type="PEM")
