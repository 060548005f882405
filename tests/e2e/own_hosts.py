"""Spark workers as if on hosts of their own: each in a network namespace with another address, and with another root.

A veth pair leads from this machine into a hub, a namespace with a bridge, and from there one to each host. A namespace lasts
as long as a process is in it, and its links with it. So nothing is left when the processes that hold them are killed.
The root of a host has /usr and /etc of this machine, read only, and PySpark's package at another path: no home directory,
no environment of Python's, no checkout, no /tmp. It needs root.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, Self

from deploy.local.guarded_process import GuardedProcess
from deploy.local.spark_cluster import Place
from mirror_connect.spark_jobs.jvm import spark_home

SPARK_HOME: Final = Path("/opt/spark")
SEEN_AS: Final = Path("/var/spark")
STARTS_S: Final = 60.0
_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
# `$1`: an empty directory for the root, `$2`: that of the host's files, `$3`: PySpark's package; the rest is the command.
_ENTER: Final = f"""
set -e
root=$1; files=$2; spark=$3; shift 3
mount -t tmpfs -o mode=0755 tmpfs "$root"
for each in usr etc proc dev tmp root; do mkdir -p "$root/$each"; done
for each in bin sbin lib lib64; do ln -s "usr/$each" "$root/$each"; done
chmod 1777 "$root/tmp"
mkdir -p "$root{SPARK_HOME}" "$root{SEEN_AS}"
for each in usr etc; do mount --bind "/$each" "$root/$each"; mount -o remount,bind,ro "$root/$each"; done
mount --bind "$spark" "$root{SPARK_HOME}"; mount -o remount,bind,ro "$root{SPARK_HOME}"
mount --bind "$files" "$root{SEEN_AS}"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" "$@"
"""


class OwnHosts:
    """A network of this machine and `count` hosts. A context manager; `address` is this machine's in it."""

    def __init__(self, directory: Path, count: int) -> None:
        self._directory = directory
        self._number = random.SystemRandom().randrange(1, 255)
        self._link = f"mirror{self._number}"
        self.address = self._address(1)
        self._hub: GuardedProcess | None = None
        self._hosts: list[GuardedProcess] = []
        self._count = count

    def __enter__(self) -> Self:
        try:
            return self._start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def place(self, host: int) -> Place:
        """Where the Spark worker of a host runs."""
        files = self._directory / f"host-{host}"
        root = self._directory / f"root-{host}"
        for each in (files, root):
            each.mkdir(exist_ok=True)
        namespaces = ["nsenter", "--target", str(self._hosts[host].pid), "--net"]
        mounts = ["unshare", "--mount", "--propagation", "private"]
        enter = ["/bin/sh", "-c", _ENTER, "enter", str(root), str(files), str(spark_home())]
        return Place(
            files,
            self.address_of(host),
            enter=[*namespaces, *mounts, *enter],
            seen_as=SEEN_AS,
            spark_home=SPARK_HOME,
            environment={"HOME": "/root", "PATH": "/usr/bin:/usr/sbin"},
        )

    def address_of(self, host: int) -> str:
        """The address of a host, counted from 0."""
        return self._address(host + 10)

    def cut(self, host: int) -> None:
        """Nothing passes to and from a host any more, and nobody is told."""
        self._in_hub("ip", "link", "set", f"host{host}", "down")

    def mend(self, host: int) -> None:
        """What was cut passes again."""
        self._in_hub("ip", "link", "set", f"host{host}", "up")

    def close(self) -> None:
        """Ends the namespaces' processes, and with them all links."""
        # The kernel would remove it a moment after the namespace of its other end.
        if Path(f"/sys/class/net/{self._link}").exists():
            _run("ip", "link", "delete", self._link)
        for each in (*self._hosts, *([self._hub] if self._hub else [])):
            if each.alive:
                each.kill()

    def _start(self) -> Self:
        hub = self._hub = self._holder("hub")
        link = self._link
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "uplink", "netns", str(hub.pid))
        self._in_hub("ip", "link", "add", "bridge", "type", "bridge")
        self._in_hub("ip", "link", "set", "bridge", "up")
        self._in_hub("ip", "link", "set", "uplink", "master", "bridge", "up")
        _run("ip", "address", "add", f"{self.address}/24", "dev", link)
        _run("ip", "link", "set", link, "up")
        for number in range(self._count):
            host = self._holder(f"holder-{number}")
            self._hosts.append(host)
            name = f"host{number}"
            self._in_hub("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
            self._in_hub("ip", "link", "set", name, "master", "bridge", "up")
            for command in (
                ("ip", "address", "add", f"{self.address_of(number)}/24", "dev", "eth0"),
                ("ip", "link", "set", "eth0", "up"),
                ("ip", "link", "set", "lo", "up"),
            ):
                _run("nsenter", "--target", str(host.pid), "--net", *command)
        return self

    def _holder(self, name: str) -> GuardedProcess:
        self._directory.mkdir(exist_ok=True)
        command = ["unshare", "--net", "sh", "-c", "echo there; exec sleep 100000"]
        holder = GuardedProcess(name, command, log=self._directory / f"{name}.log", environment={"PATH": _PATH})
        until = time.monotonic() + STARTS_S
        while "there" not in holder.log.read_text():
            if not holder.alive or time.monotonic() > until:
                raise OSError(f"no network namespace: {holder.log.read_text() or 'it does not start'}")
            time.sleep(0.01)
        return holder

    def _in_hub(self, *command: str) -> None:
        assert self._hub is not None
        _run("nsenter", "--target", str(self._hub.pid), "--net", *command)

    def _address(self, last: int) -> str:
        return f"10.213.{self._number}.{last}"


def why_not() -> str:
    """What keeps this machine from having such hosts; empty if nothing does."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            with OwnHosts(Path(directory), 1) as hosts:
                enter = hosts.place(0).enter
                done = subprocess.run(
                    [*enter, "java", "-version"], capture_output=True, text=True, timeout=STARTS_S, check=False
                )
                return done.stderr.strip() if done.returncode else ""
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=STARTS_S, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
