"""Kafka's own jars: brokers, tools, Connect and MirrorMaker 2, resolved once into `.cache/kafka-<version>/libs`.

Everything comes through the Ivy jar that pyspark ships, so that neither Maven nor Docker is needed. The directory appears
in one rename when it is complete: its existence with the marker file is the proof, and then nothing is asked of the network.
`python -m deploy.local.kafka_jars [version]` is what `make setup` runs.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError
from deploy.local.java import java_command

KAFKA_VERSION: Final = "4.3.1"
CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"
# kafka_2.13 brings the broker and its clients; DumpLogSegments and the console tools live in kafka-tools.
ARTIFACTS: Final = (
    "kafka_2.13",
    "kafka-server",
    "kafka-tools",
    "connect-runtime",
    "connect-mirror",
    "connect-mirror-client",
    "connect-basic-auth-extension",
)
# Kafka's poms leave out the slf4j binding that its tar file has; without one a failing broker says nothing at all.
LOG_BINDING: Final = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
# Poms name their jars in three ways; the same list is needed for everything Kafka depends on.
TYPES: Final = ("jar", "bundle", "maven-plugin")
MARKER: Final = "complete.txt"


def libs(version: str = KAFKA_VERSION) -> Path:
    """Where the jars of `version` are, or will be."""
    return CACHE / f"kafka-{version}" / "libs"


def is_complete(version: str = KAFKA_VERSION) -> bool:
    """Whether every jar that this module asks for is there, seen without touching the network."""
    marker = libs(version) / MARKER
    if not marker.is_file():
        return False
    asked, *names = marker.read_text().splitlines()
    return asked == _asked(version) and all((libs(version) / name).is_file() for name in names)


def class_path(version: str = KAFKA_VERSION) -> str:
    """The Java class path with every jar of `version`; raises LocalError with what to do when there are none."""
    if not is_complete(version):
        raise LocalError(f"Kafka {version}'s jars are not in {libs(version)}: run `make setup`")
    return f"{libs(version)}/*"


def ensure(version: str = KAFKA_VERSION) -> Path:
    """Download what is missing and give the directory; a second call, or one beside it, downloads nothing."""
    if is_complete(version):
        return libs(version)
    home = libs(version).parent
    home.mkdir(parents=True, exist_ok=True)
    with _only_one(home / "download.lock"):
        if not is_complete(version):
            _download(version, home)
    return libs(version)


def ivy_jar() -> Path:
    """The Ivy that pyspark brings, found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LocalError("pyspark is not installed in this Python: run `make setup`")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise LocalError(f"no ivy-*.jar in {Path(spec.origin).parent / 'jars'}: reinstall pyspark")
    return found[-1]


def _asked(version: str) -> str:
    return " ".join((version, *ARTIFACTS, *LOG_BINDING))


def _download(version: str, home: Path) -> None:
    staging = home / "libs.new"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    ivy_file = home / "ivy.xml"
    ivy_file.write_text(_ivy_xml(version))
    print(f"Kafka {version}: resolving its jars (about 55 MB, once)", flush=True)
    command = [
        *java_command(),
        # Ivy keeps a second directory under the home directory unless told otherwise.
        f"-Divy.default.ivy.user.dir={home / 'ivy'}",
        *("-jar", str(ivy_jar()), "-cache", str(home / "ivy"), "-ivy", str(ivy_file), "-types", *TYPES),
        *("-retrieve", f"{staging}/[artifact]-[revision].[ext]"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        problems = list(_follow(process))
    jars = sorted(path.name for path in staging.glob("*.jar"))
    missing = [name for name in ARTIFACTS if f"{name}-{version}.jar" not in jars]
    if process.returncode or missing:
        said = problems[0] if problems else f"no jar of {', '.join(missing)}"
        raise LocalError(f"Kafka {version}'s jars could not be downloaded ({said}): check the network and run again")
    (staging / MARKER).write_text("\n".join([_asked(version), *jars]) + "\n")
    _replace(libs(version), staging)
    print(f"Kafka {version}: {len(jars)} jars in {libs(version)}", flush=True)


def _follow(process: subprocess.Popen[str]) -> Iterator[str]:
    """Tell the progress of Ivy's many lines, and yield those that name a problem."""
    downloaded = 0
    for line in process.stdout or ():
        text = line.strip()
        if "[SUCCESSFUL ]" in text and ".jar" in text:
            downloaded += 1
            if downloaded % 10 == 0:
                print(f"  {downloaded} jars downloaded", flush=True)
        elif (text.startswith(":: ") and text.endswith(": not found")) or "Exception" in text or "ERROR" in text:
            # As in ":: org.apache.kafka#kafka_2.13;9.9.9: not found" or "Server access error ...".
            yield text.removeprefix(":: ")


def _replace(target: Path, staging: Path) -> None:
    # A rename cannot replace a full directory; brokers that run meanwhile find the same names again an instant later.
    old = target.with_name("libs.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    staging.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _ivy_xml(version: str) -> str:
    wanted = [("org.apache.kafka", name, version) for name in ARTIFACTS] + [LOG_BINDING]
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
    """Resolve the jars of the version given as first argument; 1 and one line on standard error if that fails."""
    try:
        ensure(sys.argv[1] if len(sys.argv) > 1 else KAFKA_VERSION)
    except LocalError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
