"""Downloads the jars of YARN's daemons once into `.cache/hadoop-<version>/libs`: `python -m deploy.local.hadoop_jars`.

Hadoop's mini cluster has them in one jar, which stands on the jars of Hadoop's client that PySpark brings.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError
from deploy.local.maven_jars import CACHE, TRIES, Coordinates, MavenJars
from mirror_connect.spark_jobs.jvm import spark_home

MINI_CLUSTER: Final = "hadoop-client-minicluster"
# The resource manager makes certificates with these, and its jar has none of them.
BOUNCY_CASTLE: Final = "1.87"
_OF_BOUNCY_CASTLE: Final = ("bcprov-jdk18on", "bcutil-jdk18on", "bcpkix-jdk18on")
_DIGESTS: Final = {
    "bcpkix-jdk18on-1.87.jar": "a44be2660d72ed88673372b8cc2d53a25a5aaf27122fb803ed93f07147536aa1",
    "bcprov-jdk18on-1.87.jar": "12d2d3dd82a9ec15e92ec7c7943ee64f6097c6dc12c07e984f1693b77565b9aa",
    "bcutil-jdk18on-1.87.jar": "af46dd381553fdc466cd0c18f8bf2144c7dbcb7337eee3e16cab15e96613ddf0",
    "hadoop-client-minicluster-3.5.0.jar": "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
}


@cache
def hadoop_version() -> str:
    """Of the client that PySpark brings. LocalError."""
    for jar in (spark_home() / "jars").glob("hadoop-client-api-*.jar"):
        if found := re.fullmatch(r"hadoop-client-api-([\d.]+)\.jar", jar.name):
            return found[1]
    raise LocalError(f"no hadoop-client-api-*.jar in {spark_home() / 'jars'}: reinstall pyspark")


def ensure(tries: int = TRIES) -> Path:
    """Downloads missing jars and returns their directory; LocalError with advice."""
    version = hadoop_version()
    wanted = (
        Coordinates("org.apache.hadoop", MINI_CLUSTER, version, alone=True),
        *(Coordinates("org.bouncycastle", name, BOUNCY_CASTLE, alone=True) for name in _OF_BOUNCY_CASTLE),
    )
    names = {each.file for each in wanted}
    return MavenJars(
        title=f"Hadoop {version}",
        home=CACHE / f"hadoop-{version}",
        wanted=wanted,
        asked=" ".join(sorted(names)),
        size="about 66 MB",
        again=".venv/bin/python -m deploy.local.hadoop_jars",
        # A newer PySpark brings another Hadoop, whose digest is to be added here.
        digests={name: _DIGESTS.get(name, "unknown") for name in names},
    ).ensure(tries)


def main() -> int:
    """Downloads them; returns 1 with one line if that fails."""
    try:
        ensure()
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
