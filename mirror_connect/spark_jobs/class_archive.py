"""Creates the archive for Java's class data sharing: the classes that the application's JVM loads at each start.

Of Java 25 or newer it is an ahead-of-time cache (JEP 483, 514), which holds them linked.

Most of Spark's start time goes into loading, checking and linking ten thousand classes. With the archive, a start with its
first epoch takes half of the processor time (docs/decisions/0020). `make setup` and an image's build create it once.
For an installed package `mirror-connect archive` does.
Java itself checks whether it fits, by its own version and the names, sizes and times of the jars. If not, Java ignores it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import Final, NoReturn

import psutil
import pyspark

from mirror_connect.spark_jobs.jvm import class_path, spark_home
from mirror_connect.spark_jobs.query import do_nothing, start_clock
from mirror_connect.spark_jobs.session import open_session
from mirror_connect.spark_jobs.spark_settings import (
    AOT_CACHE,
    ARCHIVE,
    QUIET,
    QUIET_CACHE,
    archive_places,
    has_aot_cache,
)

LOAD_ALL: Final = "import sys; from mirror_connect.spark_jobs.class_archive import load_all; load_all(sys.argv[1])"
# The time for a JVM that ends to write its archive.
WRITTEN_S: Final = 120.0
EPOCH_S: Final = 60.0
MADE_S: Final = 300.0
LEFT_S: Final = 3600.0
_SCRATCH: Final = "making-"
JAVA_ANSWERS_S: Final = 20.0


def make_archive(archive: Path = ARCHIVE) -> Path:
    """Runs a Spark application that writes the archive; blocks for half a minute. Returns its path, by the kind it is of.

    OSError: the directory can't be written to. RuntimeError: no archive was written; the text is Spark's last output line.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    # A JVM that uses such an archive can't write one.
    for former in _kinds(archive):
        former.unlink(missing_ok=True)
    with _scratch_beside(archive) as scratch:
        archive = archive.with_suffix(AOT_CACHE if has_aot_cache() else archive.suffix)
        made = Path(scratch, f"made{archive.suffix}")
        # With a variable of Spark's, spark-submit would start the JVM, with another class path than most workers' JVMs.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_SUBMIT_"))}
        environment = {**kept, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": scratch}
        process = subprocess.run(
            [sys.executable, "-c", LOAD_ALL, str(made)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MADE_S,
            check=False,
        )
        if process.returncode != 0 or not made.is_file():
            raise RuntimeError((process.stdout.strip() or "Java wrote none").splitlines()[-1])
        made.replace(archive)
        _fitted(archive).write_text(what_it_fits())
    return archive


def _scratch_beside(archive: Path) -> tempfile.TemporaryDirectory[str]:
    """A directory for one archive in the making, on the same file system; removes those that killed processes left."""
    for left in archive.parent.glob(f"{_SCRATCH}*"):
        # Another process may be at it, which takes minutes at most.
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > LEFT_S:
                shutil.rmtree(left, ignore_errors=True)
    return tempfile.TemporaryDirectory(dir=archive.parent, prefix=_SCRATCH)


def _end_cleanly_when_asked() -> None:
    """SIGTERM, which a make that is ended sends, removes that directory as Ctrl-C does."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def _kinds(archive: Path) -> tuple[Path, Path]:
    return archive, archive.with_suffix(AOT_CACHE)


def what_it_fits() -> str:
    """This Java and these jars: with others an archive has no effect. RuntimeError, SubprocessError: no Java."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    try:
        version = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWERS_S, check=True)
    except FileNotFoundError:
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise RuntimeError(f"there is no java {where}: install Java 17 or newer, or set JAVA_HOME") from None
    jars = Path(pyspark.__file__).parent / "jars"
    newest = max(jar.stat().st_mtime_ns for jar in jars.glob("*.jar"))
    return f"{version.stderr}{jars} {newest} {sha256(class_path(spark_home()).encode()).hexdigest()}\n"


def command() -> NoReturn:
    """Entry point of `mirror-connect archive`: makes the archive where it may, unless one that fits is there."""
    if len(sys.argv) != 1:
        print("usage: mirror-connect archive", file=sys.stderr)
        sys.exit(2)
    places = archive_places()
    try:
        wanted = what_it_fits()
        for place in places:
            there = [each for each in _kinds(place) if os.path.isfile(each)]
            if there and os.path.isfile(_fitted(place)) and _fitted(place).read_text() == wanted:
                print(f"{there[0]} is there, and fits.")
                sys.exit(0)
        for place in places:
            if _may_be_written(place.parent):
                print(f"{make_archive(place)} is made.")
                sys.exit(0)
        reason = f"nothing can be written to {' or '.join(str(place.parent) for place in places)}"
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        reason = " ".join(str(error).split())
    print(f"mirror-connect: no archive of Java's classes: {reason}", file=sys.stderr)
    sys.exit(1)


def _fitted(archive: Path) -> Path:
    return archive.with_suffix(".fits")


def _may_be_written(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def load_all(made: str) -> None:
    """Starts Spark, runs an epoch that does nothing, and ends; its JVM writes the file `made`.

    RuntimeError: that epoch did not end.
    """

    scratch = tempfile.gettempdir()
    session = open_session(
        {
            "spark.local.dir": scratch,
            "spark.sql.warehouse.dir": f"{scratch}/warehouse",
            "spark.driver.extraJavaOptions": (
                f'-XX:AOTCacheOutput="{made}" {QUIET_CACHE}'
                if Path(made).suffix == AOT_CACHE
                else f'-XX:ArchiveClassesAtExit="{made}" {QUIET}'
            ),
        }
    )
    gateway = session.sparkContext._gateway
    jvm = psutil.Process(gateway.proc.pid)
    query = start_clock(session, do_nothing, "classes", f"{scratch}/checkpoint")
    until = time.monotonic() + EPOCH_S
    while query.lastProgress is None and query.isActive and time.monotonic() < until:
        time.sleep(0.1)
    worked = query.lastProgress is not None
    query.stop()
    session.stop()
    # The JVM ends when its standard input does.
    gateway.shutdown()
    gateway.proc.stdin.close()
    with contextlib.suppress(psutil.NoSuchProcess):
        jvm.wait(WRITTEN_S)
    if not worked:
        # The archive would lack many classes, and nobody would create it again.
        raise RuntimeError(f"Spark's first epoch did not end within {EPOCH_S:g} s, or failed")


def main() -> None:
    """Entry point of `python -m mirror_connect.spark_jobs.class_archive`. Without an archive Spark only starts slower."""
    _end_cleanly_when_asked()
    try:
        make_archive()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        print(f"No archive of Java's classes ({error}): Spark starts without one, in twice the time.", file=sys.stderr)


if __name__ == "__main__":
    main()
