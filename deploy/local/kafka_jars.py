"""Downloads Kafka's jars (brokers, tools, Connect, MirrorMaker 2) once into `.cache/kafka-<version>/libs`.

pyspark's Ivy jar downloads them, so neither Maven nor Docker is needed. A complete directory appears by one rename and has
a marker file; then the network is not used any more. `make setup` runs `python -m deploy.local.kafka_jars`; `… old`
downloads the older releases that tests copy from and to.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError
from deploy.local.java import java_command
from deploy.local.kafka_releases import OLD_VERSIONS, release

KAFKA_VERSION: Final = "4.3.1"
CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"
# Poms name jars in three ways, and Kafka's dependencies need all of them.
TYPES: Final = ("jar", "bundle", "maven-plugin")
MARKER: Final = "complete.txt"
# An unavailable registry is tried again. Downloaded files are kept, so a slow connection gets further each time.
TRIES: Final = 3
TRY_SECONDS: Final = 300.0
_TIMEOUTS: Final = ("-Dsun.net.client.defaultConnectTimeout=10000", "-Dsun.net.client.defaultReadTimeout=30000")


def libs(version: str = KAFKA_VERSION) -> Path:
    """The directory of the jars of `version`, also before it exists."""
    return CACHE / f"kafka-{version}" / "libs"


def is_complete(version: str = KAFKA_VERSION) -> bool:
    """Whether all jars exist. It does not use the network."""
    marker = libs(version) / MARKER
    if not marker.is_file():
        return False
    asked, *names = marker.read_text().splitlines()
    return asked == _asked(version) and all((libs(version) / name).is_file() for name in names)


def class_path(version: str = KAFKA_VERSION) -> str:
    """The Java class path with every jar of `version`; LocalError with advice if there are none."""
    if not is_complete(version):
        how = "make setup" if version == KAFKA_VERSION else f".venv/bin/python -m deploy.local.kafka_jars {version}"
        raise LocalError(f"Kafka {version}'s jars are not in {libs(version)}: run `{how}`")
    return f"{libs(version)}/*"


def ensure(version: str = KAFKA_VERSION, tries: int = TRIES) -> Path:
    """Downloads missing jars and returns the directory. Of several calls, also parallel ones, only one downloads.

    LocalError with advice if `tries` attempts were not enough.
    """
    if is_complete(version):
        return libs(version)
    home = libs(version).parent
    home.mkdir(parents=True, exist_ok=True)
    with _only_one(home / "download.lock"):
        if not is_complete(version):
            _download(version, home, tries)
    return libs(version)


def ivy_jar() -> Path:
    """pyspark's Ivy jar, found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LocalError("pyspark is not installed in this Python: run `make setup`")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise LocalError(f"no ivy-*.jar in {Path(spec.origin).parent / 'jars'}: reinstall pyspark")
    return found[-1]


def _asked(version: str) -> str:
    kind = release(version)
    return " ".join((version, *kind.artifacts, *kind.log_binding))


def _download(version: str, home: Path, tries: int) -> None:
    problem = ""
    for number in range(1, tries + 1):
        problem = _try_to_download(version, home)
        if not problem:
            return
        if number < tries:
            print(f"Kafka {version}: {problem}; trying again", flush=True)
            time.sleep(number)
    raise LocalError(
        f"Kafka {version}'s jars could not be downloaded ({problem}): check the network, then run "
        f"`.venv/bin/python -m deploy.local.kafka_jars {version}` again"
    )


def _try_to_download(version: str, home: Path) -> str:
    """Tries once. Returns the problem in a few words; empty if the jars exist now."""
    staging = home / "libs.new"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    ivy_file = home / "ivy.xml"
    ivy_file.write_text(_ivy_xml(version))
    print(f"Kafka {version}: resolving its jars (about 50 MB, once)", flush=True)
    command = [
        *java_command(),
        *_TIMEOUTS,
        # By default Ivy keeps a second directory in the home directory.
        f"-Divy.default.ivy.user.dir={home / 'ivy'}",
        *("-jar", str(ivy_jar()), "-cache", str(home / "ivy"), "-ivy", str(ivy_file), "-types", *TYPES),
        *("-retrieve", f"{staging}/[artifact]-[revision].[ext]"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        too_long = threading.Timer(TRY_SECONDS, process.kill)
        too_long.start()
        problems = list(_follow(process, version))
        too_long.cancel()
    if process.returncode == -signal.SIGKILL:
        return f"not done after {TRY_SECONDS:g} s"
    jars = sorted(path.name for path in staging.glob("*.jar"))
    missing = [name for name in release(version).artifacts if f"{name}-{version}.jar" not in jars]
    if process.returncode or missing:
        return problems[0] if problems else f"no jar of {', '.join(missing)}"
    (staging / MARKER).write_text("\n".join([_asked(version), *jars]) + "\n")
    _replace(libs(version), staging)
    print(f"Kafka {version}: {len(jars)} jars in {libs(version)}", flush=True)
    return ""


def _follow(process: subprocess.Popen[str], version: str) -> Iterator[str]:
    """Prints the progress from Ivy's lines, and yields those with a problem."""
    downloaded = 0
    for line in process.stdout or ():
        text = line.strip()
        if "[SUCCESSFUL ]" in text and ".jar" in text:
            downloaded += 1
            if downloaded % 10 == 0:
                print(f"Kafka {version}: {downloaded} jars downloaded", flush=True)
        elif (text.startswith(":: ") and text.endswith(": not found")) or "Exception" in text or "ERROR" in text:
            # As in ":: org.apache.kafka#kafka_2.13;9.9.9: not found" or "Server access error ...".
            yield text.removeprefix(":: ")


def _replace(target: Path, staging: Path) -> None:
    # A rename can't replace a directory with files. Running brokers find the same names again a moment later.
    old = target.with_name("libs.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    staging.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _ivy_xml(version: str) -> str:
    kind = release(version)
    wanted = [("org.apache.kafka", name, version) for name in kind.artifacts] + [kind.log_binding]
    lines = [f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default"/>' for org, name, rev in wanted]
    return "\n".join(
        [
            '<ivy-module version="2.0"><info organisation="mirror-connect" module="kafka-jars"/>',
            '<configurations><conf name="default"/></configurations><dependencies>',
            *lines,
            "</dependencies></ivy-module>",
        ]
    )


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
