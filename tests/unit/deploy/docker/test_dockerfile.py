"""The Dockerfile: linted, its lines that need no network run, and what it copies and names is there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest

from deploy.docker.health import health_url, leave_health_url
from mirror_connect.app.environment import SPARK_MODULE
from tests.image_root import DOCKERFILE, build, can_enter, stages
from tests.paths import ROOT

IMAGE: Final = ROOT / "deploy" / "docker"
MM2: Final = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n"
REST: Final = "dedicated.mode.enable.internal.rest=true\n"


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_would_find_a_fault(tmp_path: Path) -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    (tmp_path / "Dockerfile").write_text(DOCKERFILE.read_text().replace("USER 1001", "RUN cd /tmp && sudo true"))
    done = subprocess.run([hadolint, tmp_path / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1


def test_the_container_is_no_root_and_has_a_health_check() -> None:
    final = stages()[-1]
    assert final.last("USER", "") == "1001"
    assert final.last("ENTRYPOINT", "") == '["/entrypoint.sh"]'
    assert 'CMD ["/healthcheck.sh"]' in final.last("HEALTHCHECK", "")


def test_java_keeps_the_module_that_spark_starts_with() -> None:
    jlink = next(line.text for line in stages()[0].lines if line.text.startswith("jlink"))
    modules = jlink.split("--add-modules ")[1].split()[0].split(",")
    assert modules == sorted(modules)
    assert SPARK_MODULE in modules


def test_what_is_copied_is_in_the_context() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for stage in stages():
        for line in stage.lines:
            if line.word != "COPY" or line.text.startswith("--from"):
                continue
            for given in line.text.split()[:-1]:
                assert list(ROOT.glob(given)), given
                assert any(given == each or fnmatch(given, f"{each}/*") for each in allowed), given


def test_the_lines_that_need_no_network_run(tmp_path: Path) -> None:
    if not can_enter():
        pytest.skip("this machine lets nobody mount in a namespace")
    # The others run in soak: tests/e2e/test_image.py.
    by_name = build(tmp_path, whole=False)
    final = by_name["final"].directory / "upper"
    for name in ("entrypoint.sh", "docker-entrypoint.sh", "etc/confluent/docker/run", "healthcheck.sh", "opt/decom.sh"):
        target = final / (final / name).readlink().relative_to("/")
        assert target.stat().st_mode & 0o111, name
    for name in ("kafka_connect_run.sh", "kafka_mirror_maker_2_run.sh", "bin/connect-distributed.sh"):
        assert (final / "opt" / "kafka" / name).is_symlink()
    assert "kafka:x:1001:0:" in (final / "etc" / "passwd").read_text()


def test_shellcheck_of_the_scripts_by_bash_itself() -> None:
    for script in sorted(IMAGE.glob("*.sh")):
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, timeout=20, check=False)
        assert (done.returncode, done.stderr) == (0, ""), script


@pytest.mark.parametrize(
    ("status", "code"), [pytest.param("200 OK", 0, id="healthy"), pytest.param("503 X", 1, id="starting")]
)
def test_the_health_check_asks_the_worker(tmp_path: Path, status: str, code: int) -> None:
    if shutil.which("curl") is None:
        pytest.skip("this machine has no curl")
    import http.server  # noqa: PLC0415 — only here
    import threading  # noqa: PLC0415

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number, _, text = status.partition(" ")
            self.send_response(int(number), text)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/health"
        done = subprocess.run(
            [IMAGE / "healthcheck.sh"],
            env={"MIRROR_CONNECT_HEALTH_URL": url, "PATH": "/usr/bin:/bin"},
            timeout=20,
            check=False,
        )
    assert done.returncode == code


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        pytest.param({}, "http://127.0.0.1:8083/health", id="nothing"),
        pytest.param({"CONNECT_REST_PORT": "28083"}, "http://127.0.0.1:28083/health", id="confluents_port"),
        pytest.param(
            {"REST_PORT": "8084", "REST_HOST_NAME": "0.0.0.0"}, "http://127.0.0.1:8084/health", id="debeziums"
        ),
        pytest.param(
            {"CONNECT_LISTENERS": "https://:8443,http://:8083", "CONNECT_REST_PORT": "1"},
            "https://127.0.0.1:8443/health",
            id="the_first_listener",
        ),
        pytest.param({"CONNECT_LISTENERS": "http://connect:8083"}, "http://connect:8083/health", id="a_host"),
        pytest.param({"CONNECT_LISTENERS": "http://[::]:8083"}, "http://127.0.0.1:8083/health", id="ipv6"),
        pytest.param({"MIRROR_CONNECT_HEALTH_URL": "http://x:1/A/B/health"}, "http://x:1/A/B/health", id="named"),
    ],
)
def test_the_health_check_asks_where_the_variables_let_the_worker_listen(
    tmp_path: Path, environment: dict[str, str], url: str
) -> None:
    assert _health(tmp_path, environment) == (0, url)


@pytest.mark.parametrize(
    ("command", "text", "url"),
    [
        pytest.param(
            "connect-distributed.sh", "listeners=https://:8443\n", "https://127.0.0.1:8443/health", id="worker"
        ),
        pytest.param("connect-standalone.sh", "", "http://127.0.0.1:8083/health", id="nothing_said"),
        pytest.param("connect-distributed.sh", "listeners=http://host:1,http://:2", "http://host:1/health", id="first"),
        pytest.param("connect-mirror-maker.sh", MM2, "", id="mm2"),
        pytest.param("connect-mirror-maker.sh", f"{MM2}{REST}", "http://127.0.0.1:8083/", id="mm2_with_rest"),
        pytest.param("kafka-mirror-maker.sh", "", "", id="mm1"),
        pytest.param("bash", "", "http://127.0.0.1:28083/health", id="by_variables"),
    ],
)
def test_the_health_check_asks_where_the_file_lets_the_worker_listen(
    tmp_path: Path, command: str, text: str, url: str
) -> None:
    file = tmp_path / "any.properties"
    file.write_text(text)
    leave_health_url(tmp_path, ["kafka-mirror-maker.sh"])
    leave_health_url(tmp_path, [f"/opt/kafka/bin/{command}", str(file)])
    # That of another convention, which such a container has not.
    assert _health(tmp_path, {"CONNECT_REST_PORT": "28083"}) == (0, url)


def test_commands_that_serve_nothing_are_not_asked() -> None:
    assert [health_url(["mirror-connect", each]) for each in ("mm1", "verify")] == ["none", "none"]


def _health(tmp_path: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of the health check, and the URL that it asks."""
    curl = tmp_path / "curl"
    curl.write_text('#!/bin/sh\nfor last; do :; done\necho "$last" >&2\nprintf 200\n')
    curl.chmod(0o755)
    done = subprocess.run(
        [IMAGE / "healthcheck.sh"],
        env={**environment, "PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.returncode, done.stderr.strip()
