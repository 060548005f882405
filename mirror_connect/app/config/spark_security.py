"""The secret by which a standalone Spark cluster and this worker know each other.

YARN and Kubernetes make one for each application. A standalone cluster has one for all, which its master and workers are
started with. Without it, whoever reaches Spark's ports gets the tokens of tasks, and by them the logins of connectors.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.config.bounded_file import CantRead, read_file
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.spark_masters import Kind, kind_of

log = logging.getLogger(__name__)

AUTHENTICATE: Final = "spark.authenticate"
SECRET: Final = "spark.authenticate.secret"
# Of Spark, but for Kubernetes alone.
SECRET_FILE: Final = "spark.authenticate.secret.file"
CRYPTO: Final = "spark.network.crypto.enabled"


def secured(spark: Mapping[str, str]) -> dict[str, str]:
    """The properties `spark.*` with the cluster's secret, if it has to be known here. ConfigError."""
    if kind_of(spark["spark.master"]) is not Kind.STANDALONE:
        return dict(spark)
    if spark.get(AUTHENTICATE, "true").strip().lower() == "false":
        log.warning(
            "%s=false: whoever reaches Spark's ports can get the logins of connectors. "
            "Start Spark's master and workers with a secret, and set %s",
            AUTHENTICATE,
            SECRET,
        )
        # Spark refuses to encrypt without a secret.
        return {CRYPTO: "false", **spark}
    if spark.get(SECRET):
        return dict(spark)
    if path := spark.get(SECRET_FILE):
        kept = {name: value for name, value in spark.items() if not name.startswith(f"{SECRET}.")}
        return {**kept, SECRET: _secret_in(path)}
    problem = (
        f"a standalone cluster needs it: set the secret that Spark's master and workers have, "
        f"as ${{file:PATH:KEY}} or by {SECRET_FILE}; "
        f"if they have none, {AUTHENTICATE}=false does without, on a network where everybody is trusted"
    )
    raise ConfigError(SECRET, None, problem)


def _secret_in(path: str) -> str:
    """As Spark reads such a file: all bytes, in Base64."""
    try:
        content = read_file(path)
    except CantRead as error:
        raise ConfigError(SECRET_FILE, path, error.reason) from None
    if not content:
        raise ConfigError(SECRET_FILE, path, "the file is empty")
    return base64.b64encode(content).decode()
