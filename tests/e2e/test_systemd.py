"""The unit's command under its limits, as far as a machine without systemd has them: a worker starts, runs a task, and ends.

The command line, the environment and the writable directories are the unit's. Everything else is read-only, in a mount
namespace of its own, without capabilities or new privileges. System calls are not filtered here.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.product import Product
from tests.systemd_units import UNITS, command, sample_environment, settings

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

HEARTBEAT: Final = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
FILE: Final = "/etc/mirror-connect/worker.properties"
# Namespaces of its own: whoever may make them may mount in them, root or not.
OWN_MOUNTS: Final = (
    ("unshare", "--user", "--map-root-user", "--mount"),
    ("unshare", "--mount"),
)
# $1: the directory that may be written to. What can't be mounted again here (a file of the container's) is checked below.
READ_ONLY: Final = """
mount --make-rprivate / && mount --bind "$1" "$1" || exit 100
for each in $(findmnt -rno TARGET | sort -u); do
  case $each in /proc*|/sys*|/dev*|"$1") ;; *) mount -o remount,bind,ro "$each" 2>/dev/null ;; esac
done
shift
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"""


@pytest.fixture
def within(tmp_path: Path) -> Sequence[str]:
    """What comes before a command that may write to `tmp_path` and nowhere else."""
    limits = ("sh", "-c", READ_ONLY, "sh", str(tmp_path))
    for own in OWN_MOUNTS:
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run([*own, *limits, "true"], capture_output=True, check=False).returncode == 0:
                return (*own, *limits)
    pytest.skip("this machine lets nobody but root mount a file system, not even in a namespace of one's own")


# test_image.py starts a worker under such limits, too; what the unit says is checked in tests/unit/deploy.
@pytest.mark.long
def test_a_worker_runs_under_the_limits_of_its_unit(
    tmp_path: Path, within: Sequence[str], target_cluster: LocalCluster
) -> None:
    unit = settings(UNITS[0])
    state, cache, scratch = (tmp_path / name for name in ("state", "cache", "t"))
    for each in (state, cache, scratch):
        each.mkdir()
    (of_unit,) = unit["Environment"]
    environment = {
        # As systemd gives it to every service.
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
        "LANG": "C.UTF-8",
        "STATE_DIRECTORY": str(state),
        "CACHE_DIRECTORY": str(cache),
        **sample_environment(),
        **dict([of_unit.replace("%S/mirror-connect", str(state)).split("=", 1)]),
        # In the place of a /tmp of its own (PrivateTmp).
        "TMPDIR": str(scratch),
    }
    java = shutil.which("java")
    assert java is not None
    environment["PATH"] += f":{Path(java).parent}"
    clean = ("env", "-i", "-C", str(state), *(f"{name}={value}" for name, value in environment.items()))
    _can_write_nowhere_else((*within, *clean), tmp_path)
    program, *arguments, file = command(UNITS[0])
    assert (program, file) == ("/opt/mirror-connect/bin/mirror-connect", FILE)
    installed = Path(sys.prefix, "bin", "mirror-connect")

    login = target_cluster.client_properties()
    with Product(target_cluster, group="as-a-unit", command=[*within, *clean, installed, *arguments]) as worker:
        worker.put(
            "heartbeats",
            {
                "connector.class": HEARTBEAT,
                "source.cluster.alias": "as-a-unit",
                "target.cluster.alias": "B",
                **{f"source.cluster.{name}": value for name, value in login.items()},
                **{f"target.cluster.{name}": value for name, value in login.items()},
                "heartbeats.topic.replication.factor": "1",
            },
        )
        worker.wait_running("heartbeats")
        assert worker.stop() == 0
        assert list(scratch.iterdir()) == []
        assert list(state.iterdir()) == []


def _can_write_nowhere_else(within: Sequence[str], directory: Path) -> None:
    """The limits are there: or the test would show nothing."""
    there = subprocess.run([*within, "touch", directory / "t" / "x"], capture_output=True, text=True, check=False)
    assert there.returncode == 0, there.stderr
    (directory / "t" / "x").unlink()
    for place in (sys.prefix, "/etc", "/var/tmp", Path.home()):
        done = subprocess.run([*within, "touch", f"{place}/.written-by-a-test"], capture_output=True, check=False)
        assert done.returncode != 0, f"{place} can be written to"
