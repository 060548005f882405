"""Where Kubernetes' API is, and who this worker is there: a kube config, or the service account of the worker's pod.

The order is that of the Kubernetes client under Strimzi's config providers: the file of KUBECONFIG or ~/.kube/config if it
exists, else the service account. Everything is read anew each time, because Kubernetes replaces tokens within the hour.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mirror_connect.connectors.config.bounded_file import CantRead, read_file
from mirror_connect.kafka_io.client.tls import in_memory

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoAccess(Exception):
    """There is no usable way to the API. The text is a reason without secrets."""


@dataclass(frozen=True, slots=True)
class Access:
    """One way to the API. `url`: without a slash at its end. `headers` hold the login; `login` says where it is from."""

    url: str
    namespace: str
    tls: ssl.SSLContext
    headers: Mapping[str, str] = field(repr=False)
    login: str
    server_name: str | None = None


def find_access(environment: Mapping[str, str], service_account: Path = SERVICE_ACCOUNT) -> Access:
    """The way to the API at this moment. NoAccess says what is missing."""
    config = _kube_config(environment)
    if config is not None:
        return _from_kube_config(config)
    if not _is_there(service_account / "token"):
        raise NoAccess(
            f"there is neither a service account in {service_account} nor a kube config (KUBECONFIG, ~/.kube/config): "
            "run the worker in a pod with a service account, or set KUBECONFIG"
        )
    return _from_service_account(environment, service_account)


def _from_service_account(environment: Mapping[str, str], directory: Path) -> Access:
    host = environment.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:
        host = f"[{host}]"
    namespace = _text(directory / "namespace") if _is_there(directory / "namespace") else "default"
    tls = _context(_text(directory / "ca.crt"), str(directory / "ca.crt"))
    token = _text(directory / "token")
    return Access(f"https://{host}:{port}", namespace, tls, _bearer(token), f"the token {directory / 'token'}")


def _kube_config(environment: Mapping[str, str]) -> Path | None:
    named = [Path(each) for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    home = environment.get("HOME")
    places = named or ([Path(home, ".kube", "config")] if home else [])
    return next((each for each in places if _is_there(each)), None)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a directory that this user may not look into, like another user's home
        return False


def _from_kube_config(path: Path) -> Access:
    import yaml  # noqa: PLC0415 — a start without kube config needs none

    try:
        document = yaml.safe_load(_text(path))
    except (yaml.YAMLError, RecursionError):
        raise NoAccess(f"the kube config {path} is no YAML") from None
    document = document if isinstance(document, dict) else {}
    context = _entry(document, "contexts", "context", document.get("current-context"), path)
    cluster = _entry(document, "clusters", "cluster", context.get("cluster"), path)
    user = _entry(document, "users", "user", context.get("user"), path)
    for helper in ("exec", "auth-provider"):
        if helper in user:
            raise NoAccess(
                f"the kube config {path} logs in by {helper}, which isn't supported here: use token, tokenFile or a "
                "client certificate"
            )
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith("https://"):
        raise NoAccess(f"the kube config {path} has no server that begins with https://")
    tls = _context(_inline_or_file(cluster, "certificate-authority", path), f"certificate-authority of {path}")
    if cluster.get("insecure-skip-tls-verify") is True:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    _show_certificate(tls, user, path)
    name = cluster.get("tls-server-name")
    return Access(
        server,
        str(context.get("namespace") or "default"),
        tls,
        _login(user, path),
        f"the login of {path}",
        str(name) if name else None,
    )


def _entry(document: Mapping[str, Any], section: str, kind: str, name: object, path: Path) -> dict[str, Any]:
    entries = document.get(section)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: dict[str, Any] = entry[kind]
            return found
    raise NoAccess(f"the kube config {path} has no {kind} {name}")


def _login(user: Mapping[str, Any], path: Path) -> dict[str, str]:
    if user.get("token"):
        return _bearer(str(user["token"]))
    if user.get("tokenFile"):
        return _bearer(_text(_beside(path, user["tokenFile"])))
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
    return {}


def _show_certificate(tls: ssl.SSLContext, user: Mapping[str, Any], path: Path) -> None:
    chain, key = _inline_or_file(user, "client-certificate", path), _inline_or_file(user, "client-key", path)
    if chain is None or key is None:
        return
    try:
        with in_memory(f"{chain}\n{key}\n") as together:
            # A key with a password would ask for it on the terminal.
            tls.load_cert_chain(together, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError):
        raise NoAccess(f"the client certificate or its key in {path} can't be used") from None


def _inline_or_file(entry: Mapping[str, Any], name: str, path: Path) -> str | None:
    if entry.get(f"{name}-data"):
        try:
            return base64.b64decode(str(entry[f"{name}-data"]), validate=False).decode("ascii")
        except (binascii.Error, ValueError):
            raise NoAccess(f"{name}-data in {path} is no base64 of PEM") from None
    return _text(_beside(path, entry[name])) if entry.get(name) else None


def _beside(path: Path, named: object) -> Path:
    """Paths in a kube config are relative to it."""
    return path.parent / str(named)


def _context(authorities: str | None, origin: str) -> ssl.SSLContext:
    """`authorities`: None for those of the system. An empty text is a mistake, and does not mean the system's."""
    try:
        context = ssl.create_default_context(cadata=authorities)
    except (ssl.SSLError, ValueError):
        raise NoAccess(f"{origin} has no certificate in PEM") from None
    if authorities == "":
        raise NoAccess(f"{origin} has no certificate in PEM")
    return context


def _bearer(token: str) -> dict[str, str]:
    # A header takes neither line breaks nor other characters than ASCII; httpx's error would show them.
    if not token.isascii() or not token.isprintable():
        raise NoAccess("the token has characters that a token can't have")
    return {"Authorization": f"Bearer {token}"}


def _text(path: Path) -> str:
    try:
        return read_file(path).decode("utf-8").strip()
    except CantRead as error:
        raise NoAccess(f"{path} can't be read: {error}") from None
    except UnicodeDecodeError:
        raise NoAccess(f"{path} isn't UTF-8") from None
