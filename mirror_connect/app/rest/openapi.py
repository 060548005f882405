"""Prints openapi.yaml, made from the application: `python -m mirror_connect.app.rest.openapi > openapi.yaml`."""

from __future__ import annotations

import sys
from typing import cast

import yaml

from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.rest.application import create_api
from mirror_connect.app.rest.docs import contract


def openapi_yaml() -> str:
    """The contract as YAML: that of a worker without admin.listeners, whose listeners serve everything."""
    # No route is called, so no herder is needed.
    application = create_api(cast(Herder, None))
    return yaml.safe_dump(contract(application), sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    sys.stdout.write(openapi_yaml())
