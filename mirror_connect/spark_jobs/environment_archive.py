"""Packs this Python with mirror-connect and all it needs, for the executors of a cluster: `mirror-connect spark-archive`.

Executors unpack the file (`spark.archives=FILE#environment`) and start its Python. It is a whole Python, found by its own
place: no path of this machine is in it, and executors need none of their own. PySpark is left out, as each Spark has it.
Tools for that keep links to a Python that has to be at every host, or need conda (docs/decisions/0047).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final, NoReturn

from mirror_connect.spark_jobs.cluster_settings import ENVIRONMENT
from mirror_connect.spark_jobs.daemon import PRELOADED
from mirror_connect.spark_jobs.jvm import spark_home

PRODUCT: Final = "mirror-connect"
PACKAGE: Final = "mirror_connect"
OUTPUT: Final = "mirror-connect-environment.tar.gz"
USAGE: Final = "usage: mirror-connect spark-archive [--output FILE] [--with NAME]…"
# Of Spark: its own is the one that fits it.
LEFT_OUT: Final = frozenset({"pyspark", "py4j"})
# Of the standard library: what no task imports. `config-…` has what C programs are linked with.
_NOT_PACKED: Final = frozenset(
    {"test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages", "dist-packages"}
)
# Of pyarrow, 15 MB.
_HEADERS: Final = frozenset({"include", "tests"})
# The same for `zlib` at its best would take five times as long, for a tenth less.
_LEVEL: Final = 4
_RUNS_S: Final = 120.0
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
# A shared library of Python itself is found by this: its place is written in the program as an absolute path.
_LAUNCHER: Final = """#!/bin/sh
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
LD_LIBRARY_PATH="$here/../lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec "$here/{program}" "$@"
"""


class ArchiveError(Exception):
    """It can't be packed; the text says why, and what to do."""


def pack(output: Path, extra: Sequence[str] = ()) -> None:
    """Writes the archive; blocks for half a minute. `extra`: names of more distributions, as of users' filters.

    The file appears when it is whole, and its Python has imported all that tasks need. ArchiveError, OSError.
    """
    with tempfile.TemporaryDirectory(prefix="mirror-connect-packing-") as scratch:
        tree = Path(scratch) / ENVIRONMENT
        _copy_python(tree)
        packages = Path(_ask(tree, "import site; print(site.getsitepackages()[0])"))
        _copy_packages(packages, extra)
        _try_out(tree)
        # Beside it, so that it gets its name at once.
        with tempfile.NamedTemporaryFile(dir=output.parent, prefix=f".{output.name}.", delete=False) as unfinished:
            try:
                with tarfile.open(fileobj=unfinished, mode="w:gz", compresslevel=_LEVEL, dereference=True) as archive:
                    for each in sorted(tree.iterdir()):
                        archive.add(each, arcname=each.name, filter=_of_nobody)
                unfinished.flush()
                os.chmod(unfinished.name, 0o644)
                os.replace(unfinished.name, output)
            except BaseException:
                os.unlink(unfinished.name)
                raise


def needed(name: str) -> dict[str, Distribution]:
    """A distribution and what it needs, by their names, as far as it is installed here. ArchiveError: it is not itself.

    What this machine runs without, executors run without as well.
    """
    found: dict[str, Distribution] = {}
    waiting = [name]
    while waiting:
        each = _normal(waiting.pop())
        if each in found or each in LEFT_OUT:
            continue
        try:
            found[each] = distribution(each)
        except PackageNotFoundError:
            if each != _normal(name):
                continue
            raise ArchiveError(f"{name} is not installed in {sys.prefix}: install it there with pip") from None
        waiting += _requirements(found[each])
    return found


def _requirements(of: Distribution) -> Iterator[str]:
    """The names that it requires, but for its extras."""
    for requirement in of.requires or ():
        what, _, condition = requirement.partition(";")
        if "extra" not in condition and (named := _NAME.match(what.strip())) is not None:
            yield named[0]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _copy_python(tree: Path) -> None:
    """The interpreter and its standard library, in the places where it looks for them by itself."""
    program = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
    bin_, lib = tree / "bin", tree / "lib"
    bin_.mkdir(parents=True)
    lib.mkdir()
    for kind in dict.fromkeys((sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))):
        shutil.copytree(kind, lib / minor, ignore=_not_packed, dirs_exist_ok=True)
    libraries = _own_libraries()
    if libraries:
        shutil.copy2(program, bin_ / minor)
        for library in libraries:
            shutil.copy2(library, lib / library.name)
        launcher = bin_ / "python"
        launcher.write_text(_LAUNCHER.format(program=minor), "utf-8")
        launcher.chmod(0o755)
    else:
        shutil.copy2(program, bin_ / "python")


def _own_libraries() -> list[Path]:
    """The shared library of this Python; empty if it is in the program."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return []
    directory, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME")
    found = Path(str(directory), str(name))
    return [found.resolve().with_name(str(name)) if found.exists() else found]


def _not_packed(directory: str, names: list[str]) -> set[str]:
    del directory
    return {name for name in names if name in _NOT_PACKED or name.startswith("config-") or name == "__pycache__"}


def _copy_packages(packages: Path, extra: Sequence[str]) -> None:
    every: dict[str, Distribution] = {}
    for name in (PRODUCT, *extra):
        every |= needed(name)
    own = every.pop(PRODUCT)
    for each in every.values():
        _copy_distribution(each, packages)
    # In a checkout the package is not where its distribution is.
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, packages / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for file in own.files or ():
        if file.parts[0].endswith(".dist-info") and file.name not in {"RECORD", "direct_url.json"}:
            _copy_file(Path(str(file.locate())), packages / file)


def _copy_distribution(each: Distribution, packages: Path) -> None:
    for file in each.files or ():
        # What is outside of the packages are programs and manuals.
        unused = file.parts[0] == "pyarrow" and _HEADERS.intersection(file.parts[1:-1])
        if ".." in file.parts or file.suffix == ".pyc" or unused:
            continue
        _copy_file(Path(str(file.locate())), packages / file)


def _copy_file(source: Path, to: Path) -> None:
    # A list of files may name one that somebody has removed.
    if source.is_file():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, to)


def _try_out(tree: Path) -> None:
    """Compiles all, and imports what an executor's daemon does, with Spark's own PySpark. ArchiveError."""
    _run(
        tree,
        "-m",
        "compileall",
        "-q",
        "-j",
        "0",
        "--invalidation-mode",
        "unchecked-hash",
        str(tree / "lib"),
        checked=False,
    )
    zips = os.pathsep.join(map(str, sorted((spark_home() / "python" / "lib").glob("*.zip"))))
    imports = "; ".join(f"import {module}" for module in PRELOADED)
    _ask(tree, f"import sys; sys.path[:0] = {zips.split(os.pathsep)!r}; {imports}")


def _ask(tree: Path, code: str) -> str:
    return _run(tree, "-I", "-c", code).strip()


def _run(tree: Path, *arguments: str, checked: bool = True) -> str:
    """Runs the packed Python as an executor would: without an environment of this machine."""
    done = subprocess.run(
        [str(tree / "bin" / "python"), *arguments],
        env={"PATH": os.environ.get("PATH", os.defpath)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_RUNS_S,
        check=False,
    )
    if checked and done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ArchiveError(f"the packed Python does not run: {last}")
    return done.stdout


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def command() -> NoReturn:
    """Entry point of `mirror-connect spark-archive`."""
    output, extra = _arguments(sys.argv[1:])
    try:
        pack(output, extra)
        size = output.stat().st_size >> 20
    except (ArchiveError, OSError, subprocess.SubprocessError) as error:
        print(f"mirror-connect: no archive for executors: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)
    print(f"{output} is made, {size} MB. For the worker's properties:\nspark.archives={output}#{ENVIRONMENT}")
    sys.exit(0)


def _arguments(given: list[str]) -> tuple[Path, list[str]]:
    output, extra = OUTPUT, []
    arguments = iter(given)
    for each in arguments:
        name, equals, value = each.partition("=")
        if name not in {"--output", "--with"}:
            _wrong(f"{each}?")
        value = value if equals else next(arguments, "")
        if not value:
            _wrong(f"{name} needs a value")
        if name == "--with":
            extra.append(value)
        else:
            output = value
    return Path(output).absolute(), extra


def _wrong(what: str) -> NoReturn:
    print(f"mirror-connect: {what} {USAGE}", file=sys.stderr)
    sys.exit(2)
