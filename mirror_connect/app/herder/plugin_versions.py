"""The `version` of a plugin that a request asks for: refused when it is none, and when it isn't the one there is."""

from __future__ import annotations

from mirror_connect.app.errors import BadRequest
from mirror_connect.connectors.config.plugin_version import NoVersion, unavailable


def check_form(version: str | None) -> None:
    """BadRequest for what is neither a version nor a range."""
    try:
        unavailable("", version)
    except NoVersion:
        raise BadRequest(f"Invalid version specification: {version}") from None


def check_available(class_name: str, version: str | None, kinds: int = 1) -> None:
    """BadRequest in Connect's words when the one version there is is not meant."""
    problem = unavailable(class_name, version, kinds)
    if problem is not None:
        raise BadRequest(problem)
