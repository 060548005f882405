"""Makes archives for Java's class data sharing, so that Kafka's programs start faster.

Tests start about two hundred of them, and each needs little more than half of the CPU time (docs/decisions/0020). The files
are beside the jars of each release. Java checks whether one fits (its own version; names, sizes and times of the jars); if
not, it silently starts without. Measurements start Java as Kafka's scripts do, without archives.
`python -m deploy.local.class_archive` makes missing ones; `… old` does so for the older releases.
"""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from deploy.local.cluster import LocalCluster
from deploy.local.connect import ConnectWorker
from deploy.local.errors import LocalError
from deploy.local.java_process import BROKER, CONNECT, QUICK, class_archive
from deploy.local.kafka_jars import KAFKA_VERSION, MARKER, is_complete, libs
from deploy.local.kafka_releases import OLD_VERSIONS
from deploy.local.watchdog import watchdog

# A JVM writes its archive before it ends.
WRITTEN_S: Final = 60.0


def make_archives(version: str = KAFKA_VERSION) -> None:
    """Starts the programs of `version` without an archive, which write one at their end (ten seconds).

    LocalError if a program did not start or wrote none.
    """
    wanted = [BROKER, CONNECT] if version == KAFKA_VERSION else [BROKER]
    missing = [program for program in wanted if not _fits(class_archive(program, version), version)]
    if not missing:
        return
    for program in missing:
        # A JVM that uses an archive can't write one of this kind.
        class_archive(program, version).unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=class_archive(BROKER, version).parent) as scratch:
        watchdog().guard_directory(scratch)
        made = {program: Path(scratch, program) for program in missing}
        options = {program: (*QUICK, f"-XX:ArchiveClassesAtExit={path}") for program, path in made.items()}
        with LocalCluster("classes", version=version, jvm_options=options.get(BROKER)) as cluster:
            if CONNECT in missing:
                with ConnectWorker(cluster, heap="512m", options=options[CONNECT]) as connect:
                    connect.stop(WRITTEN_S)
            cluster.brokers[0].stop(WRITTEN_S)
        for program, path in made.items():
            if not path.is_file():
                raise LocalError(f"Java wrote no archive of the classes of {program} of Kafka {version}")
            # The rename is atomic, so two processes at once both end with a complete file.
            os.replace(path, class_archive(program, version))


def _fits(archive: Path, version: str) -> bool:
    # Jars that were downloaded again have other times, and Java refuses an archive of the former ones.
    return archive.is_file() and archive.stat().st_mtime > (libs(version) / MARKER).stat().st_mtime


def _problem(version: str) -> str:
    try:
        if is_complete(version):
            make_archives(version)
    except (LocalError, OSError) as error:
        return f"No archive of Java's classes for Kafka {version} ({error}): its programs start without one, slower."
    return ""


def main() -> None:
    """Makes missing archives of the given releases. Without an archive everything works, only slower."""
    versions = list(OLD_VERSIONS) if sys.argv[1:] == ["old"] else sys.argv[1:] or [KAFKA_VERSION]
    with ThreadPoolExecutor(len(versions)) as pool:
        for problem in filter(None, pool.map(_problem, versions)):
            print(problem, file=sys.stderr)


if __name__ == "__main__":
    main()
