"""The version and commit that this worker shows to REST clients."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final


def _own_version() -> str:
    try:
        return version("mirror-connect")
    except PackageNotFoundError:
        return "unknown"


API_VERSION: Final = _own_version()
# Connect has a commit id here; the product and its version help more.
COMMIT: Final = "mirror_connect_" + "".join(c if c.isalnum() else "_" for c in API_VERSION)
