"""Installed from its wheel or its sdist into an environment of its own, the product is whole: the worker starts, and copies.

The environment has what the package says that it needs, and nothing else: linked from here, as those are what was checked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.product import DRIVER, WORKER, Product
from tests.paths import ROOT

pytestmark = [pytest.mark.brokers, pytest.mark.spark]
NAME: Final = "mirror-connect"
HEARTBEAT: Final = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
# pyjks wants it for the UBER key stores of Bouncy Castle, which nothing here reads. The lock files leave it out: it needs a
# compiler.
LEFT_OUT: Final = "twofish"
# What a checkout has and a package is not made of.
NO_SOURCES: Final = shutil.ignore_patterns(
    ".venv", ".cache", ".git", "build", "*.egg-info", "__pycache__", ".hypothesis"
)


@pytest.fixture(scope="module")
def dists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel, built from a copy of this checkout."""
    sources, built = tmp_path_factory.mktemp("sources") / NAME, tmp_path_factory.mktemp("dist")
    shutil.copytree(ROOT, sources, symlinks=True, ignore=NO_SOURCES)
    for kind in ("sdist", "wheel"):
        _build(kind, sources, built)
    return built


# What the sdist holds is what the wheel is made of, by the same table.
@pytest.fixture(scope="module", params=["wheel", pytest.param("sdist", marks=pytest.mark.long)])
def environment(
    request: pytest.FixtureRequest, dists: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A virtual environment with the package and its dependencies alone."""
    folder = tmp_path_factory.mktemp(str(request.param))
    wheels = dists
    if request.param == "sdist":
        # As pip does it: a wheel is built from what the sdist holds.
        shutil.unpack_archive(next(dists.glob("*.tar.gz")), folder, filter="data")
        wheels = folder / "wheels"
        wheels.mkdir()
        _build("wheel", next(folder.glob(f"{NAME.replace('-', '_')}-*")), wheels)
    home = folder / "environment"
    venv.create(home, symlinks=True)
    pip = ("-m", "pip", "--python", home / "bin" / "python", "--quiet", "--disable-pip-version-check")
    _run(sys.executable, *pip, "install", "--no-index", "--no-deps", next(wheels.glob("*.whl")))
    _link(_needed_by(NAME), next(home.glob("lib/python*/site-packages")))
    yield home
    shutil.rmtree(home)


def test_a_worker_from_the_package_starts_and_its_tasks_run(environment: Path, target_cluster: LocalCluster) -> None:
    group = f"installed-{environment.parent.name}"
    ways: dict[str, list[Path | str]] = {
        "wheel": [environment / "bin" / NAME, "worker"],
        "sdist": [environment / "bin" / "connect-distributed.sh"],
    }
    command = ways[environment.parent.name.rstrip("0123456789")]
    login = target_cluster.client_properties()
    with Product(target_cluster, group=group, command=command) as worker:
        worker.put(
            "heartbeats",
            {
                "connector.class": HEARTBEAT,
                "source.cluster.alias": group,
                "target.cluster.alias": "B",
                **{f"source.cluster.{name}": value for name, value in login.items()},
                **{f"target.cluster.{name}": value for name, value in login.items()},
                "heartbeats.topic.replication.factor": "1",
                "emit.heartbeats.interval.seconds": "1",
            },
        )
        before = end_offsets(target_cluster, "heartbeats").get(0, 0)
        worker.wait_running("heartbeats")
        wait_ends(target_cluster, "heartbeats", {0: before + 1})
        parts = worker.parts()
        for process in (*parts[WORKER], *parts[DRIVER]):
            assert process.cmdline()[0].startswith(str(environment)), process.cmdline()


def test_the_package_holds_every_module_and_page_and_nothing_else(environment: Path) -> None:
    installed = next(environment.glob("lib/python*/site-packages")) / "mirror_connect"

    def modules(folder: Path) -> set[str]:
        pages = (path for path in (folder / "app" / "rest" / "static").rglob("*") if path.is_file())
        return {str(path.relative_to(folder)) for path in (*folder.rglob("*.py"), *pages)}

    assert modules(installed) == modules(ROOT / "mirror_connect")
    where = _run(environment / "bin" / "python", "-c", "import mirror_connect; print(mirror_connect.__file__)")
    assert where.strip() == str(installed / "__init__.py")


def test_the_commands_of_the_package_answer(environment: Path) -> None:
    assert "verify" in _run(environment / "bin" / NAME, "--help")
    assert _run(environment / "bin" / NAME, "--version").strip() == f"{NAME} {distribution(NAME).version}"
    # What tools for commands of their own look at (pipx, uv): one command, and the start scripts.
    (entries,) = environment.glob("lib/python*/site-packages/mirror_connect-*.dist-info/entry_points.txt")
    assert entries.read_text().split() == ["[console_scripts]", NAME, "=", "mirror_connect.cli.__main__:main"]
    assert {each.name for each in (ROOT / "bin").iterdir()} <= {each.name for each in (environment / "bin").iterdir()}


def _build(kind: str, sources: Path, into: Path) -> None:
    """Build `kind` (sdist or wheel) with the backend that pyproject.toml names; no registry is asked."""
    call = f"from setuptools import build_meta; build_meta.build_{kind}({str(into)!r})"
    _run(sys.executable, "-c", call, cwd=sources)


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    """Standard output of a command that has to succeed, away from the checkout."""
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd or "/",
        env=clean,
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def _needed_by(name: str) -> dict[str, Distribution]:
    """Name → what `name` needs, and what that needs, without extras that nobody asked for."""
    found: dict[str, Distribution] = {}
    wanted = [(name, frozenset[str]())]
    while wanted:
        name, extras = wanted.pop()
        for line in distribution(name).requires or ():
            need = Requirement(line)
            asked = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras or {""})
            if asked and need.name != LEFT_OUT and need.name not in found:
                found[need.name] = distribution(need.name)
                wanted.append((need.name, frozenset(need.extras)))
    return found


def _link(needed: dict[str, Distribution], site_packages: Path) -> None:
    """Make these importable there, and visible to importlib.metadata."""
    for each in needed.values():
        for top in {path.parts[0] for path in each.files or ()} - {"..", "__pycache__"}:
            if not (site_packages / top).exists():
                (site_packages / top).symlink_to(Path(str(each.locate_file(top))))
