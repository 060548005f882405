"""A directory of jars by their Maven coordinates, downloaded once.

pyspark's Ivy jar downloads them, so neither Maven nor Docker is needed. A complete directory appears by one rename and has
a marker file; then the network is not used any more.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError
from deploy.local.java import java_command

CACHE: Final = Path(__file__).resolve().parents[2] / ".cache"
# Poms name jars in three ways, and Kafka's dependencies need all of them.
TYPES: Final = ("jar", "bundle", "maven-plugin")
MARKER: Final = "complete.txt"
# An unavailable registry is tried again. Downloaded files are kept, so a slow connection gets further each time.
TRIES: Final = 3
TRY_SECONDS: Final = 300.0
_TIMEOUTS: Final = ("-Dsun.net.client.defaultConnectTimeout=10000", "-Dsun.net.client.defaultReadTimeout=30000")


@dataclass(frozen=True, slots=True)
class Coordinates:
    """What a registry is asked for. `alone`: without its dependencies."""

    organisation: str
    name: str
    revision: str
    alone: bool = False

    @property
    def file(self) -> str:
        """The name of its jar."""
        return f"{self.name}-{self.revision}.jar"


@dataclass(frozen=True, slots=True)
class MavenJars:
    """`title`: for people, with the version. `home`: the directory of the downloads; the jars are in `libs` in it.

    `wanted`: what is asked for; each has to be there in the end. `asked`: the same in a few words, for the marker.
    `size`: of all files together, for people. `again`: the command that downloads them. `digests`: SHA-256 by the name of
    a file; Ivy alone compares what the registry itself says.
    """

    title: str
    home: Path
    wanted: tuple[Coordinates, ...]
    asked: str
    size: str
    again: str
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def libs(self) -> Path:
        """The directory of the jars, also before it exists."""
        return self.home / "libs"

    def is_complete(self) -> bool:
        """Whether all jars exist. It does not use the network."""
        marker = self.libs / MARKER
        if not marker.is_file():
            return False
        asked, *names = marker.read_text().splitlines()
        return asked == self.asked and all((self.libs / name).is_file() for name in names)

    def ensure(self, tries: int = TRIES) -> Path:
        """Downloads missing jars and returns the directory. Of several calls, also parallel ones, only one downloads.

        LocalError with advice if `tries` attempts were not enough.
        """
        if self.is_complete():
            return self.libs
        self.home.mkdir(parents=True, exist_ok=True)
        with _only_one(self.home / "download.lock"):
            if not self.is_complete():
                self._download(tries)
        return self.libs

    def _download(self, tries: int) -> None:
        problem = ""
        for number in range(1, tries + 1):
            problem = self._try_to_download()
            if not problem:
                return
            if number < tries:
                print(f"{self.title}: {problem}; trying again", flush=True)
                time.sleep(number)
        raise LocalError(
            f"{self.title}'s jars could not be downloaded ({problem}): check the network, then run `{self.again}` again"
        )

    def _try_to_download(self) -> str:
        """Tries once. Returns the problem in a few words; empty if the jars exist now."""
        staging = self.home / "libs.new"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        ivy_file = self.home / "ivy.xml"
        ivy_file.write_text(self._ivy_xml())
        print(f"{self.title}: resolving its jars ({self.size}, once)", flush=True)
        command = [
            *java_command(),
            *_TIMEOUTS,
            # By default Ivy keeps a second directory in the home directory.
            f"-Divy.default.ivy.user.dir={self.home / 'ivy'}",
            *("-jar", str(ivy_jar()), "-cache", str(self.home / "ivy"), "-ivy", str(ivy_file), "-types", *TYPES),
            *("-retrieve", f"{staging}/[artifact]-[revision].[ext]"),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            too_long = threading.Timer(TRY_SECONDS, process.kill)
            too_long.start()
            problems = list(self._follow(process))
            too_long.cancel()
        if process.returncode == -signal.SIGKILL:
            return f"not done after {TRY_SECONDS:g} s"
        jars = sorted(path.name for path in staging.glob("*.jar"))
        missing = [each.name for each in self.wanted if each.file not in jars]
        if process.returncode or missing:
            return problems[0] if problems else f"no jar of {', '.join(missing)}"
        if wrong := [name for name, digest in self.digests.items() if _sha256(staging / name) != digest]:
            return f"{', '.join(wrong)}: not the file that was published"
        (staging / MARKER).write_text("\n".join([self.asked, *jars]) + "\n")
        _replace(self.libs, staging)
        print(f"{self.title}: {len(jars)} jars in {self.libs}", flush=True)
        return ""

    def _follow(self, process: subprocess.Popen[str]) -> Iterator[str]:
        """Prints the progress from Ivy's lines, and yields those with a problem."""
        downloaded = 0
        for line in process.stdout or ():
            text = line.strip()
            if "[SUCCESSFUL ]" in text and ".jar" in text:
                downloaded += 1
                if downloaded % 10 == 0:
                    print(f"{self.title}: {downloaded} jars downloaded", flush=True)
            elif (text.startswith(":: ") and text.endswith(": not found")) or "Exception" in text or "ERROR" in text:
                # As in ":: org.apache.kafka#kafka_2.13;9.9.9: not found" or "Server access error ...".
                yield text.removeprefix(":: ")

    def _ivy_xml(self) -> str:
        lines = [
            f'<dependency org="{each.organisation}" name="{each.name}" rev="{each.revision}" conf="default" '
            f'transitive="{str(not each.alone).lower()}"/>'
            for each in self.wanted
        ]
        return "\n".join(
            [
                f'<ivy-module version="2.0"><info organisation="mirror-connect" module="{self.home.name}"/>',
                '<configurations><conf name="default"/></configurations><dependencies>',
                *lines,
                "</dependencies></ivy-module>",
            ]
        )


def ivy_jar() -> Path:
    """pyspark's Ivy jar, found without importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LocalError("pyspark is not installed in this Python: run `make setup`")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise LocalError(f"no ivy-*.jar in {Path(spec.origin).parent / 'jars'}: reinstall pyspark")
    return found[-1]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(target: Path, staging: Path) -> None:
    # A rename can't replace a directory with files. Running brokers find the same names again a moment later.
    old = target.with_name("libs.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    staging.rename(target)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
