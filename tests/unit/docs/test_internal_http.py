"""docs/worker-and-tasks.md, "Internal HTTP", names the paths that the worker serves to its Spark application."""

from __future__ import annotations

import re
from typing import cast

from starlette.routing import Route

from mirror_connect.app.supervisor.internal_api import create_internal_application
from mirror_connect.app.supervisor.spark_host import SparkHost
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "worker-and-tasks.md").read_text("utf-8")


def test_the_paths_told_are_those_served() -> None:
    # The routes are made without looking at the host.
    served = create_internal_application(cast(SparkHost, None)).routes
    section = PAGE.split("## Internal HTTP")[1].split("\n## ")[0]
    told = set(re.findall(r"^\| `(GET|POST) ([^?`]+)", section, re.MULTILINE))
    assert told == {
        (
            "GET" if "GET" in (route.methods or ()) else "POST",
            route.path.replace("{run_id}", "R").replace("{process_id}", "P").replace("{name}", "NAME"),
        )
        for route in served
        if isinstance(route, Route)
    }
