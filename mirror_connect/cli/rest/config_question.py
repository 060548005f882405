"""A question to a worker about the connector of one file, which need not exist there: its plan, its preview."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from rich.text import Text

from mirror_connect.cli.rest.apply_command import connector_files
from mirror_connect.cli.rest.failures import RequestRefused, UnknownName, Unsupported, WorkerUnreachable, WrongUsage
from mirror_connect.cli.rest.figures import plain
from mirror_connect.cli.rest.listings import View
from mirror_connect.cli.rest.worker_client import WorkerClient, plugin_path


def ask_about(
    worker: WorkerClient,
    chosen: argparse.Namespace,
    request: tuple[str, str],
    query: Mapping[str, Any],
    view_of: Callable[[Mapping[str, Any]], View],
) -> View:
    """The view of the answer, or of why the config would be refused.

    `chosen`: has `file` and `name`. `request`: the method, and the last part of the path. The answer has a member of that
    name, which is null if the config would be refused. WrongUsage, Unsupported, WorkerUnreachable, RequestRefused.
    """
    method, what = request
    files = connector_files([chosen.file], chosen.name)
    if len(files) > 1:
        raise WrongUsage(f"{chosen.file} has {len(files)} connectors: name the file of one")
    (file,) = files
    plugin = file.config.get("connector.class")
    if not plugin:
        raise WrongUsage(f"{file.path} has no connector.class")
    path = plugin_path(plugin.rpartition(".")[2], "config", what)
    try:
        answer = worker.send(method, path, {**file.config, "name": file.name}, **query)
    except UnknownName:
        raise Unsupported(
            f"{worker.url} has no {path}: it is a worker of Kafka's own, or an older one; mirror-connect check says more"
        ) from None
    except RequestRefused as refused:
        if refused.status in (httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE):
            # A cluster that the config names does not answer, or refuses; or Spark does not answer.
            raise WorkerUnreachable(str(refused)) from None
        raise
    if answer.get(what) is None:
        lines = [Text(plain(f"refused: {each}"), style="bold red") for each in answer.get("errors") or ()]
        return View(answer, [], [f"{file.name} would be refused.", *lines], wrong=True)
    return view_of(answer)
