"""Prints openapi.yaml, made from the application: `python -m mirror_connect.app.rest.openapi > openapi.yaml`."""

from __future__ import annotations

import sys
from typing import cast

import yaml
from fastapi import FastAPI

from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.rest.application import create_api


def openapi_yaml() -> str:
    """The contract as YAML. FastAPI's own 422 is taken out: no route of ours gives it."""
    # No route is called, so no herder is needed.
    application: FastAPI = create_api(cast(Herder, None))
    contract = application.openapi()
    for path in contract["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    for schema in ("HTTPValidationError", "ValidationError"):
        contract["components"]["schemas"].pop(schema, None)
    contract["components"]["securitySchemes"] = {"basic": {"type": "http", "scheme": "basic"}}
    # Credentials are asked for only if the worker's properties say so.
    contract["security"] = [{}, {"basic": []}]
    return yaml.safe_dump(contract, sort_keys=False, allow_unicode=True, width=120)


if __name__ == "__main__":
    sys.stdout.write(openapi_yaml())
