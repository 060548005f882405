"""Downloads Kafka's jars (brokers, tools, Connect, MirrorMaker 2) once into `.cache/kafka-<version>/libs`.

`make setup` runs `python -m deploy.local.kafka_jars`; `… old` downloads the older releases that tests copy from and to.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError
from deploy.local.kafka_releases import OLD_VERSIONS, release
from deploy.local.maven_jars import CACHE, MARKER, TRIES, Coordinates, MavenJars

__all__ = ["KAFKA_VERSION", "MARKER", "class_path", "ensure", "is_complete", "libs"]

KAFKA_VERSION: Final = "4.3.1"


def libs(version: str = KAFKA_VERSION) -> Path:
    """The directory of the jars of `version`, also before it exists."""
    return _jars(version).libs


def is_complete(version: str = KAFKA_VERSION) -> bool:
    """Whether all jars exist. It does not use the network."""
    return _jars(version).is_complete()


def class_path(version: str = KAFKA_VERSION) -> str:
    """The Java class path with every jar of `version`; LocalError with advice if there are none."""
    jars = _jars(version)
    if not jars.is_complete():
        how = "make setup" if version == KAFKA_VERSION else jars.again
        raise LocalError(f"Kafka {version}'s jars are not in {jars.libs}: run `{how}`")
    return f"{jars.libs}/*"


def ensure(version: str = KAFKA_VERSION, tries: int = TRIES) -> Path:
    """Downloads missing jars and returns the directory; LocalError with advice if `tries` attempts were not enough."""
    return _jars(version).ensure(tries)


def _jars(version: str) -> MavenJars:
    kind = release(version)
    return MavenJars(
        title=f"Kafka {version}",
        home=CACHE / f"kafka-{version}",
        wanted=(
            *(Coordinates("org.apache.kafka", name, version) for name in kind.artifacts),
            Coordinates(*kind.log_binding),
        ),
        asked=" ".join((version, *kind.artifacts, *kind.log_binding)),
        size="about 50 MB",
        again=f".venv/bin/python -m deploy.local.kafka_jars {version}",
    )


def main() -> int:
    """Downloads the jars of the given versions in parallel; returns 1 with one line for each that fails."""
    versions = list(OLD_VERSIONS) if sys.argv[1:] == ["old"] else sys.argv[1:] or [KAFKA_VERSION]
    with ThreadPoolExecutor(len(versions)) as pool:
        problems = [problem for problem in pool.map(_resolved, versions) if problem]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def _resolved(version: str) -> str:
    try:
        ensure(version)
    except LocalError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
