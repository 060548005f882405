"""Other users of the machine get nothing of a worker's Spark: real Spark, and a second one as the other user's client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

# As the application does it (spark_jobs/__main__.py), with one job through PySpark's daemon; then what listens is told.
SERVED = """
import contextlib, json, os, sys, psutil
from mirror_connect.spark_jobs.session import open_session
session = open_session({"spark.authenticate": "false", "spark.local.dir": os.environ["TMPDIR"]})
context = session.sparkContext
assert context.parallelize(range(8), 2).map(lambda each: each + 1).sum() == 36
jvm = context._gateway.proc.pid
ports, python_ports, arguments, environments = [], [], [], []
for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
    with contextlib.suppress(psutil.NoSuchProcess):
        arguments += process.cmdline()
        environments += process.environ().values()
        for each in process.net_connections("tcp"):
            if each.status == psutil.CONN_LISTEN:
                (python_ports if "python" in process.name() else ports).append(each.laddr)
secret = context._jvm.org.apache.spark.SparkEnv.get().securityManager().getSecretKey()
told = {
    "rpc": int(session.conf.get("spark.driver.port")),
    "ports": ports,
    "python_ports": python_ports,
    "secret": secret,
    "secret_told": any(secret in each for each in arguments + environments) if secret else None,
    "sockets": [path for path in os.listdir(os.environ["TMPDIR"]) if path.endswith(".sock")],
}
print(json.dumps(told), flush=True)
sys.stdin.read()
"""
# Another Spark asks for an endpoint that each driver has. What comes in is the secret it knows; without one it makes one up.
CLIENT = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
for name, value in json.loads(sys.argv[2]).items():
    builder = builder.config(name, value)
jvm = builder.getOrCreate()._jvm
if secret := sys.stdin.read():
    # Where the JVM keeps its own (SecurityManager.getSecretKey).
    known = jvm.org.apache.hadoop.security.Credentials()
    name = jvm.org.apache.hadoop.io.Text(jvm.org.apache.spark.SecurityManager.SECRET_LOOKUP_KEY().toString())
    known.addSecretKey(name, bytearray(secret.encode()))
    jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addCredentials(known)
address = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", int(sys.argv[1]))
try:
    print("FOUND", jvm.org.apache.spark.SparkEnv.get().rpcEnv().setupEndpointRef(address, "HeartbeatReceiver").name())
except Exception as error:
    print("REFUSED", type(error).__name__)
"""


@dataclass(frozen=True)
class Served:
    """A Spark application that runs, as seen from inside."""

    told: dict[str, Any]
    scratch: Path


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="closed-") as scratch:
        environment = {**os.environ, "TMPDIR": scratch, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        process = subprocess.Popen(
            [sys.executable, "-c", SERVED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            yield Served(json.loads(process.stdout.readline()), Path(scratch))
        finally:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait(180)
            process.stdout.close()


# Who knows another secret gets no answer, and waits for it: not for Spark's two minutes. Who knows the secret has as long.
AUTHENTICATED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.rpc.lookupTimeout": "30s",
}


def asked(served: Served, config: dict[str, str], secret: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, str(served.told["rpc"]), json.dumps(config)],
        input=secret,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.stdout.split()[0] if done.stdout.split() else done.stderr


def test_a_second_local_client_without_a_secret_gets_nothing(served: Served) -> None:
    assert asked(served, {}) == "REFUSED"


# Each client is a Spark of its own, and the one that is refused waits for half a minute.
@pytest.mark.long
def test_of_two_clients_with_a_secret_only_the_one_that_knows_the_applications_gets_something(served: Served) -> None:
    assert asked(served, AUTHENTICATED) == "REFUSED"
    # A Spark without authentication refuses whoever comes with any: that alone would say nothing of the secret.
    assert asked(served, AUTHENTICATED, served.told["secret"] or "none") == "FOUND"


def test_the_secret_stands_in_no_argument_and_no_environment(served: Served) -> None:
    assert served.told["secret_told"] is False


def test_nothing_listens_beyond_loopback_and_pysparks_processes_on_no_port(served: Served) -> None:
    assert {host.removeprefix("::ffff:") for host, _ in served.told["ports"]} == {"127.0.0.1"}
    assert served.told["python_ports"] == []


def test_they_meet_in_a_directory_that_nobody_else_may_enter(served: Served) -> None:
    assert served.told["sockets"] != []
    assert served.scratch.stat().st_mode & 0o077 == 0
