"""`mirror-connect __words KIND [ARGUMENT …]`: names that a shell offers, one a line. The completion scripts call it.

ARGUMENT …: the command line so far, for its --worker, --context and --user. The worker has a second to answer. Whatever goes
wrong, nothing is printed: who presses the tab key wants no error, and can't be asked for a password.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import ssl
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mirror_connect.cli.rest.contexts import Context, Contexts
from mirror_connect.cli.rest.failures import CommandFailed

PASSWORD: Final = "MIRROR_CONNECT_PASSWORD"
_SECONDS: Final = 1.0
Get = Callable[[str], Any]


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def main() -> None:
    """Entry point. It ends in time, whatever the worker does."""
    kind, *line = sys.argv[1:] or [""]
    found: list[str] = []
    # A name server or a worker may take any time, also byte by byte. A daemon thread is left behind.
    asking = threading.Thread(target=lambda: found.extend(_asked(kind, line)), daemon=True)
    asking.start()
    asking.join(_SECONDS)
    # A name with a line break can't be offered.
    sys.stdout.write("".join(f"{name}\n" for name in list(found) if name.isprintable()))
    sys.stdout.flush()
    sys.stderr.flush()
    # At its end, Python would wait for what the thread holds.
    os._exit(0)


def _asked(kind: str, line: list[str]) -> list[str]:
    try:
        if kind == "contexts":
            return list(Contexts().all)
        return list(_KINDS[kind](_getter(_context(line)))) if kind in _KINDS else _of_config(line)
    except (CommandFailed, OSError, ValueError, LookupError, AttributeError, TypeError, argparse.ArgumentError):
        return []


def _of_config(line: list[str]) -> list[str]:
    """Behind `config`: contexts for a verb that takes one, else connectors."""
    if any(word in ("use-context", "remove-context", "set-context") for word in line[:1]):
        return list(Contexts().all)
    return list(_connectors(_getter(_context(line))))


def _context(line: list[str]) -> Context:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("worker", "context", "user", "cacert"):
        # The word that is completed may be an option without its value.
        parser.add_argument(f"--{name}", nargs="?")
    given, _ = parser.parse_known_args(line)
    if given.worker:
        found = Context("", given.worker)
    else:
        contexts = Contexts()
        found = contexts.named(given.context) if given.context else contexts.current
    user = given.user or found.username
    password = os.environ.get(PASSWORD) or (found.password if user == found.username else None)
    return Context("", found.cluster, user, password, given.cacert or found.cacert, found.cert, found.key)


def _getter(context: Context) -> Get:
    headers = {"Accept": "application/json"}
    if context.username is not None:
        login = f"{context.username}:{context.password or ''}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
    tls = None
    if context.cluster.startswith("https:"):
        tls = ssl.create_default_context(cafile=context.cacert)
        if context.cert is not None:
            tls.load_cert_chain(context.cert, context.key, password=lambda: "")
    elif not context.cluster.startswith("http:"):
        raise ValueError(context.cluster)
    # A redirection would take the password elsewhere.
    opener = urllib.request.build_opener(_NoRedirection, urllib.request.HTTPSHandler(context=tls))

    def get(path: str) -> Any:
        request = urllib.request.Request(context.cluster.rstrip("/") + path, headers=headers)
        with opener.open(request, timeout=_SECONDS) as answer:
            return json.load(answer)

    return get


def _connectors(get: Get) -> Iterator[str]:
    yield from sorted(map(str, get("/connectors")))


def _tasks(get: Get) -> Iterator[str]:
    """Connectors, and their tasks behind them."""
    found = get("/connectors?expand=status")
    for name in sorted(found):
        yield name
        yield from (f"{name}/{task['id']}" for task in found[name]["status"]["tasks"])


def _links(get: Get) -> Iterator[str]:
    yield from (str(each["name"]) for each in get("/admin/links")["links"])


def _loggers(get: Get) -> Iterator[str]:
    yield from sorted(get("/admin/loggers"))


_KINDS: Final[Mapping[str, Callable[[Get], Iterator[str]]]] = {
    "connectors": _connectors,
    "tasks": _tasks,
    "links": _links,
    "loggers": _loggers,
}
