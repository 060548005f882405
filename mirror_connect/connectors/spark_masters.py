"""The kinds of `spark.master`: where a worker's tasks run. Worker and Spark application both ask this; it has no Spark."""

from __future__ import annotations

import enum
import re
from typing import Final

# Spark's forms of a local master. Slots are threads: with none, nothing would run.
_LOCAL: Final = re.compile(r"local(\[\s*(\*|0*[1-9]\d*)\s*(,\s*0*[1-9]\d*\s*)?\])?")
# Spark's own test cluster: EXECUTORS, cores of each, MB of each. Its executors are processes of this machine.
_LOCAL_CLUSTER: Final = re.compile(r"local-cluster\[\s*(0*[1-9]\d*)\s*,\s*(0*[1-9]\d*)\s*,\s*(0*[1-9]\d*)\s*\]")
_STANDALONE: Final = "spark://"
_KUBERNETES: Final = "k8s://"
_FORMS: Final = (
    "Spark has local[SLOTS,TRIES], spark://HOST:PORT[,HOST:PORT…], yarn and k8s://[https://]HOST:PORT; "
    "without spark.master tasks run in local[64,4]"
)


class Kind(enum.Enum):
    """Who starts the executors."""

    LOCAL = "local"
    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"
    OTHER = "other"


def kind_of(master: str) -> Kind:
    """By the form alone; `problem_of` says whether Spark takes it. `local-cluster[…]` counts as a standalone cluster."""
    if master.startswith((_STANDALONE, "local-cluster")):
        return Kind.STANDALONE
    if master.startswith("local"):
        return Kind.LOCAL
    if master == "yarn":
        return Kind.YARN
    return Kind.KUBERNETES if master.startswith(_KUBERNETES) else Kind.OTHER


def is_local(master: str) -> bool:
    """Whether tasks run in processes of the worker's own Spark application, on its machine."""
    return kind_of(master) is Kind.LOCAL


def problem_of(master: str) -> str | None:
    """Why Spark does not take this master, and what to write; None if it does."""
    match kind_of(master):
        case Kind.LOCAL if not _LOCAL.fullmatch(master):
            return f"not a local master with slots. {_FORMS}"
        case Kind.STANDALONE:
            return _problem_of_standalone(master)
        case Kind.KUBERNETES:
            return _problem_of_kubernetes(master)
        case Kind.OTHER if master.startswith("sc://"):
            return f"a Spark Connect server can't run tasks: they end with a client's session. {_FORMS}"
        case Kind.OTHER:
            return f"not a master that Spark knows. {_FORMS}"
    return None


def _problem_of_standalone(master: str) -> str | None:
    """As Spark reads `spark://a:7077,b:7077` (Utils.extractHostPortFromSparkUrl for each)."""
    if not master.startswith(_STANDALONE):
        return None if _LOCAL_CLUSTER.fullmatch(master) else f"write local-cluster[EXECUTORS,SLOTS,MB]. {_FORMS}"
    for address in master.removeprefix(_STANDALONE).split(","):
        if not _is_host_and_port(f"{_STANDALONE}{address}", port_needed=True):
            return f"{address or 'an empty address'} is not HOST:PORT. {_FORMS}"
    return None


def _problem_of_kubernetes(master: str) -> str | None:
    """As Spark's Utils.checkAndGetK8sMasterUrl, which adds https:// where no scheme is given."""
    url = master.removeprefix(_KUBERNETES)
    if "://" not in url:
        url = f"https://{url}"
    scheme = url.partition("://")[0].lower()
    if scheme not in {"https", "http"}:
        return f"{scheme}:// is not the scheme of a Kubernetes API server. {_FORMS}"
    # A proxy's path, as that of Rancher or of `kubectl proxy --www-prefix`, is part of the address.
    if not _is_host_and_port(url, port_needed=False, path_allowed=True):
        return f"{url} is not the address of a Kubernetes API server. {_FORMS}"
    return None


def _is_host_and_port(url: str, *, port_needed: bool, path_allowed: bool = False) -> bool:
    from urllib.parse import urlsplit  # noqa: PLC0415 — a driver on this machine starts without it

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # a port that is no number, or too large
        return False
    named = bool(parts.hostname) and not re.search(r"\s", url) and parts.username is None
    plain = not (parts.query or parts.fragment) and (path_allowed or not parts.path)
    return named and plain and (port is not None or not port_needed)
