"""The Dockerfile's lines, run without a Docker engine: each stage in a root of its own, an overlay over this machine's.

A stage is a mount namespace with an overlay whose lower layer is this machine's root, changed into by chroot. COPY writes
into the overlay's upper layer, RUN runs in it with the stage's ENV and WORKDIR. It stands for the base image as far as
this machine is like it. It needs root, or a user namespace in which this user is root.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.paths import ROOT

DOCKERFILE: Final = ROOT / "deploy" / "docker" / "Dockerfile"
# The base image's Python; this machine's may lie where only root may look.
PYTHON: Final = {Path(sys.base_prefix): "/python"}
PATH: Final = "/python/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Which RUN lines need a registry, or what those brought.
_HEAVY: Final = ("apt-get", "pip", "venv", "jlink", "spark_jobs")
# The overlay is mounted, then the kernel's file systems into it. `$1`: the stage's directory; the rest is the command.
_ENTER: Final = """
set -e
stage=$1; shift
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$stage/upper,workdir=$stage/work" "$stage/root"
mount --rbind /proc "$stage/root/proc"
mount --rbind /dev "$stage/root/dev"
if [ -n "$READ_ONLY" ]; then mount -t tmpfs -o mode=1777 tmpfs "$stage/root/tmp"; fi
for each in $BOUND; do mkdir -p "$stage/root/${each#*:}"; mount --bind "${each%%:*}" "$stage/root/${each#*:}"; done
for each in $SCRATCHES; do mount -t tmpfs -o mode=0775 tmpfs "$stage/root/$each"; done
if [ -n "$READ_ONLY" ]; then mount -o remount,ro,bind "$stage/root"; fi
exec chroot $USERSPEC "$stage/root" /usr/bin/env -i -C "$DIRECTORY" "$@"
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction: `word` is RUN, COPY …, `text` its rest on one line, `number` its first line in the file."""

    number: int
    word: str
    text: str


@dataclass(slots=True)
class Stage:
    """The instructions behind one FROM."""

    name: str
    base: str
    lines: list[Line] = field(default_factory=list)

    def variables(self, before: Line | None = None) -> dict[str, str]:
        """ENV so far."""
        found: dict[str, str] = {}
        for line in self.lines:
            if line == before:
                break
            if line.word == "ENV":
                found |= dict(pair.split("=", 1) for pair in shlex.split(line.text))
        return found

    def last(self, word: str, default: str, before: Line | None = None) -> str:
        """The text of the last such instruction, of all or of those before a line."""
        lines = self.lines if before is None else self.lines[: self.lines.index(before)]
        return next((line.text for line in reversed(lines) if line.word == word), default)


def stages(path: Path = DOCKERFILE) -> list[Stage]:
    """The stages of a Dockerfile."""
    found: list[Stage] = []
    for line in _lines(path.read_text("utf-8")):
        if line.word == "FROM":
            base, _, name = line.text.partition(" AS ")
            found.append(Stage(name or "final", base))
        else:
            found[-1].lines.append(line)
    return found


def _lines(text: str) -> list[Line]:
    found: list[Line] = []
    waiting, begin = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or (not line.strip() and not waiting):
            continue
        begin = begin if waiting else number
        waiting += line.removesuffix("\\") + " "
        if not line.endswith("\\"):
            word, _, rest = waiting.strip().partition(" ")
            found.append(Line(begin, word, re.sub(r"\s+", " ", rest.strip())))
            waiting = ""
    return found


class Root:
    """One stage's root, in `directory`."""

    def __init__(self, stage: Stage, directory: Path) -> None:
        self.stage = stage
        self.directory = directory
        for each in ("upper", "work", "root"):
            (directory / each).mkdir(parents=True)

    def copy(self, line: Line, others: Mapping[str, Root]) -> None:
        """COPY: from this repository, or from the upper layer of another stage. FileNotFoundError: it isn't there."""
        words = shlex.split(line.text)
        origin = ROOT
        if words[0].startswith("--from="):
            origin = others[words.pop(0).removeprefix("--from=")].directory / "upper"
        *given, target = words
        files = [file for each in given for file in sorted(glob.glob(str(origin / each.lstrip("/"))))]
        if len(files) < len(given):
            raise FileNotFoundError(f"Dockerfile:{line.number}: {line.text}")
        place = self.directory / "upper" / os.path.join(self.stage.last("WORKDIR", "/", line), target).lstrip("/")
        for file in map(Path, files):
            # As Docker: of a directory its content is copied.
            into = place / file.name if not file.is_dir() and (target.endswith("/") or len(files) > 1) else place
            into.parent.mkdir(parents=True, exist_ok=True)
            if file.is_dir():
                shutil.copytree(file, into, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(file, into)

    def run(self, line: Line, timeout_s: float, **more: str) -> subprocess.CompletedProcess[str]:
        """RUN: the shell's text, as root, with the variables so far and `more`."""
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        variables = {"PATH": PATH, "HOME": "/root", **pip, **more, **self.stage.variables(line)}
        directory = self.stage.last("WORKDIR", "/", line)
        (self.directory / "upper" / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
        command = self.command(["/bin/sh", "-c", line.text], variables, directory=directory, bound=PYTHON)
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)

    def command(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        *,
        directory: str = "/",
        user: str = "",
        read_only: bool = False,
        bound: Mapping[Path, str] | None = None,
        scratches: Sequence[str] = (),
    ) -> list[str]:
        """The command line that runs `arguments` in this root: as `user` (UID:GID), with /tmp as the first place to write.

        `bound`: directories of this machine, and where they are in the root; `scratches`: volumes, empty and in memory.
        """
        settings = {
            "BOUND": " ".join(f"{source}:{target}" for source, target in (bound or {}).items()),
            "SCRATCHES": " ".join(scratches),
            "READ_ONLY": "yes" if read_only else "",
            "USERSPEC": f"--userspec={user}" if user else "",
            "DIRECTORY": directory,
        }
        unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        # Where Python is a shared library, it is found by where it was installed, which may be hidden.
        given = [f"{name}={value}" for name, value in {"LD_LIBRARY_PATH": "/python/lib", **variables}.items()]
        enter = ["env", *(f"{name}={value}" for name, value in settings.items()), "/bin/sh", "-c", _ENTER, "enter"]
        return [*unshare, *enter, str(self.directory), *given, *arguments]


def build(directory: Path, *, whole: bool, timeout_s: float = 60) -> dict[str, Root]:
    """All stages' roots, each line executed. AssertionError names the line that failed.

    Without `whole` no line runs that needs a registry, and the environment is that of this checkout, linked: see `STUB`.
    """
    roots = {stage.name: Root(stage, directory / stage.name) for stage in stages()}
    if not whole:
        (roots["java"].directory / "upper" / "opt" / "java").mkdir(parents=True)
        _link_environment(roots["build"].directory / "upper" / "opt" / "mirror-connect")
    for root in roots.values():
        for line in root.stage.lines:
            if line.word == "COPY":
                root.copy(line, roots)
            elif line.word == "RUN" and (whole or not any(word in line.text for word in _HEAVY)):
                done = root.run(line, timeout_s)
                assert done.returncode == 0, f"Dockerfile:{line.number}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return roots


# Where the roots of a stub see this checkout and its environment.
STUB: Final = {ROOT: "/checkout", **PYTHON}


def _link_environment(home: Path) -> None:
    """An environment whose packages are links into this checkout's, as it is seen in a root."""
    packages = home / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    installed = ROOT / ".venv" / "lib" / "python3.11" / "site-packages"
    for each in installed.iterdir():
        if not each.name.startswith("__editable__"):
            (packages / each.name).symlink_to(Path("/checkout") / each.relative_to(ROOT))
    (packages / "mirror_connect").symlink_to("/checkout/mirror_connect")
    shutil.copytree(ROOT / "bin", home / "bin")
    command = home / "bin" / "mirror-connect"
    command.write_text("#!/opt/mirror-connect/bin/python\nfrom mirror_connect.cli.__main__ import main\n\nmain()\n")
    command.chmod(0o755)
    for name in ("python", "python3"):
        (home / "bin" / name).symlink_to("/python/bin/python3.11")
    (home / "pyvenv.cfg").write_text("home = /python/bin\ninclude-system-site-packages = false\nversion = 3.11\n")


def can_enter() -> bool:
    """Whether this machine lets this user mount such a root."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        root = Root(Stage("probe", ""), Path(directory))
        command = root.command(["true"], {"PATH": PATH})
        return subprocess.run(command, capture_output=True, timeout=20, check=False).returncode == 0
