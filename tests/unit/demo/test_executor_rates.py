"""The demo's rates of executors: bytes that their tasks' processes write, as the kernel counts them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import psutil
import pytest

from deploy.demo.executor_rates import EVERY_S, ExecutorRates, told
from deploy.local.spark_executor import BACKEND, Executor
from tests.waiting import wait_for_state

# An executor, its daemon, and a task that writes 100 kB every 50 ms to a port.
_TASK: Final = """
import os, socket, sys, time
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while True:
    os.write(sock.fileno(), b"x" * 100_000)
    time.sleep(0.05)
"""
_OPTIONS: Final = "--driver-url spark://s@h:1 --executor-id 3 --app-id app-1"


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_what_tasks_write_to_the_target_is_the_rate_of_their_executor(server: socket.socket) -> None:
    port = server.getsockname()[1]
    daemon = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {_TASK!r}, {str(port)!r}])"
    jvm = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {daemon!r}])"
    process = subprocess.Popen([sys.executable, "-c", jvm, BACKEND, *_OPTIONS.split()])
    found: Executor | None = None
    try:
        # The kernel shows the new arguments of a process a moment after it has begun.
        executor = found = wait_for_state(
            lambda: Executor.of("worker", psutil.Process(process.pid)), "the executor is seen"
        )
        connection, _ = server.accept()
        with connection:
            connection.settimeout(0.01)
            rates = ExecutorRates(port)
            wait_for_state(lambda: len(executor.tasks()) == 1, "the task is there")
            (first,) = rates.look(lambda: [executor])
            began = time.monotonic()
            assert first.bytes_per_second == 0
            received = 0
            while (took := time.monotonic() - began) < EVERY_S + 0.1:
                try:
                    received += len(connection.recv(1 << 20))
                except TimeoutError:
                    continue
            (rate,) = rates.look(lambda: [executor])
            assert len(rate.processes) == 1
            assert rate.bytes_per_second == pytest.approx(received / took, rel=0.5)
            assert told([rate]).startswith("executors 3: 1 tasks ")
    finally:
        process.kill() if found is None else found.kill()
        process.wait()
