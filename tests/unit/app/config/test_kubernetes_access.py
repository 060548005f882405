"""Which way to Kubernetes' API is found: the service account's files, or a kube config."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirror_connect.app.config.kubernetes_access import NoAccess, find_access
from tests.fakes.certificates import party

AUTHORITY = party("authority", None, ca=True)
CLIENT = party("me", AUTHORITY, ca=False)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def account(tmp_path: Path) -> Path:
    directory = tmp_path / "account"
    directory.mkdir()
    for name, text in {"token": "t0\n", "ca.crt": AUTHORITY.pem, "namespace": "kafka\n"}.items():
        (directory / name).write_text(text)
    return directory


def kube_config(path: Path, user: dict[str, Any], **cluster: object) -> dict[str, str]:
    server: dict[str, Any] = {
        "server": "https://api.example:6443/",
        "certificate-authority-data": encoded(AUTHORITY.pem),
    }
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": server | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return {"KUBECONFIG": f"/nowhere/config:{path}"}


def test_a_pod_has_its_service_account(account: Path) -> None:
    found = find_access({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}, account)
    assert (found.url, found.namespace) == ("https://10.0.0.1:6443", "kafka")
    assert found.headers == {"Authorization": "Bearer t0"}
    assert "t0" not in repr(found)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        pytest.param({}, "https://kubernetes.default.svc:443", id="by_name"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "fd00::1"}, "https://[fd00::1]:443", id="ipv6"),
    ],
)
def test_the_address_has_defaults(account: Path, given: dict[str, str], url: str) -> None:
    assert find_access(given, account).url == url


@pytest.mark.parametrize(
    ("user", "login"),
    [
        pytest.param({"token": "abc"}, "Bearer abc", id="token"),
        pytest.param({"tokenFile": "token.txt"}, "Bearer of-a-file", id="token_file_beside_the_config"),
        pytest.param({"username": "u", "password": "p"}, "Basic " + encoded("u:p"), id="name_and_password"),
        pytest.param(
            {"client-certificate-data": encoded(CLIENT.pem), "client-key-data": encoded(CLIENT.key_pem())},
            None,
            id="client_certificate",
        ),
    ],
)
def test_a_kube_config_comes_first(account: Path, tmp_path: Path, user: dict[str, Any], login: str | None) -> None:
    (tmp_path / "token.txt").write_text("of-a-file\n")
    found = find_access(kube_config(tmp_path / "config", user), account)
    assert (found.url, found.namespace) == ("https://api.example:6443", "team")
    assert found.headers.get("Authorization") == login
    assert found.tls.verify_mode == ssl.CERT_REQUIRED


def test_the_config_of_the_home_directory_is_found(account: Path, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    kube_config(tmp_path / ".kube" / "config", {"token": "abc"})
    assert find_access({"HOME": str(tmp_path)}, account).url == "https://api.example:6443"


def test_a_home_directory_that_can_not_be_looked_into_is_no_reason_to_fail(account: Path) -> None:
    # The system refuses to look at all, as it does in another user's home.
    assert "token" in find_access({"HOME": f"/{'x' * 300}"}, account).login


def test_tls_can_be_loosened_by_the_config_alone(account: Path, tmp_path: Path) -> None:
    given = kube_config(tmp_path / "config", {}, **{"insecure-skip-tls-verify": True, "tls-server-name": "inner"})
    found = find_access(given, account)
    assert (found.tls.verify_mode, found.server_name) == (ssl.CERT_NONE, "inner")


@pytest.mark.parametrize(
    ("user", "cluster", "told"),
    [
        pytest.param({"exec": {"command": "aws"}}, {}, "logs in by exec, which isn't supported", id="exec"),
        pytest.param({"token": "a\nb"}, {}, "characters that a token can't have", id="token_of_two_lines"),
        pytest.param({"tokenFile": "none"}, {}, "none can't be read", id="no_token_file"),
        pytest.param({}, {"server": "http://plain:80"}, "no server that begins with https", id="not_https"),
        pytest.param({}, {"certificate-authority-data": "%"}, "no certificate in PEM", id="no_authority"),
        pytest.param(
            {"client-certificate-data": encoded("x"), "client-key-data": encoded("y")},
            {},
            "client certificate or its key",
            id="no_client_certificate",
        ),
    ],
)
def test_a_config_that_can_not_be_used_is_told(
    account: Path, tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], told: str
) -> None:
    with pytest.raises(NoAccess, match=told):
        find_access(kube_config(tmp_path / "config", user, **cluster), account)


def test_a_config_without_its_context_is_told(account: Path, tmp_path: Path) -> None:
    for text in ("current-context: gone", "[", "- 1", "a: &a [*a]"):
        (tmp_path / "config").write_text(text)
        with pytest.raises(NoAccess, match=r"has no context|no YAML"):
            find_access({"KUBECONFIG": str(tmp_path / "config")}, account)


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        pytest.param("ca.crt", b"none", "no certificate in PEM", id="authority"),
        pytest.param("token", "tökén".encode(), "characters that a token can't have", id="token"),
        pytest.param("namespace", b"\xff", "isn't UTF-8", id="namespace"),
    ],
)
def test_a_broken_service_account_is_told(account: Path, file: str, content: bytes, told: str) -> None:
    (account / file).write_bytes(content)
    with pytest.raises(NoAccess, match=told):
        find_access({}, account)
