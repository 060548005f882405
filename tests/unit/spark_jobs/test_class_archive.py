"""The archive of Java's classes: used where there is one, missed by nobody where there is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirror_connect.spark_jobs import class_archive, spark_settings
from mirror_connect.spark_jobs.class_archive import make_archive
from mirror_connect.spark_jobs.spark_settings import ARCHIVE, MAKES_ARCHIVE, archive_option, archive_places
from tests.waiting import wait_for_state


def test_without_an_archive_there_is_no_option(tmp_path: Path) -> None:
    # The second is where the system refuses to look, as in the home directory of another user.
    assert archive_option([tmp_path / "spark.jsa", tmp_path / ("x" * 300) / "spark.jsa"]) == ""


def test_a_path_with_spaces_stays_one_argument(tmp_path: Path) -> None:
    archive = tmp_path / "with spaces" / "spark.jsa"
    archive.parent.mkdir()
    archive.touch()
    assert archive_option([archive]).startswith(f'-XX:SharedArchiveFile="{archive}" ')


def test_of_several_archives_the_newest_is_used(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("a.jsa", "b.jsa", "c.jsa")]
    for age, place in zip((3, 1, 2), places, strict=True):
        place.touch()
        os.utime(place, (1_000_000 - age, 1_000_000 - age))
    assert f'"{tmp_path}/b.jsa"' in archive_option(places)


@pytest.mark.parametrize(
    ("environment", "caches"),
    [
        pytest.param({"HOME": "/h"}, ["/h/.cache/mirror-connect"], id="home"),
        pytest.param({"HOME": "/h", "XDG_CACHE_HOME": "/x"}, ["/x/mirror-connect"], id="the_users_cache"),
        pytest.param({"CACHE_DIRECTORY": "/var/cache/m:/n"}, ["/var/cache/m"], id="systemds_unit"),
        pytest.param({}, [], id="nothing"),
    ],
)
def test_an_archive_is_beside_the_package_or_in_a_cache(environment: dict[str, str], caches: list[str]) -> None:
    assert archive_places(environment) == [ARCHIVE, *(Path(cache, "spark.jsa") for cache in caches)]


def java_of(monkeypatch: pytest.MonkeyPatch, home: Path, version: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.touch(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="nobody"\nJAVA_VERSION="{version}"\n', "utf-8")
    monkeypatch.setenv("JAVA_HOME", str(home))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Beside the package and in a cache, for a command whose archives are made by no Java."""
    found = [tmp_path / "package" / "spark.jsa", tmp_path / "cache" / "spark.jsa"]
    monkeypatch.setattr(class_archive, "archive_places", lambda: found)
    monkeypatch.setattr(class_archive, "LOAD_ALL", "import sys; open(sys.argv[1], 'w').write('classes')")
    monkeypatch.setattr(class_archive, "what_it_fits", lambda: "Java 17 and these jars")
    java_of(monkeypatch, tmp_path / "java", "17.0.15")
    monkeypatch.setattr(sys, "argv", ["mirror-connect archive"])
    return found


def command() -> int:
    with pytest.raises(SystemExit) as ended:
        class_archive.command()
    return int(str(ended.value.code))


def test_the_archive_is_made_once_for_each_java(
    places: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (command(), capsys.readouterr().out) == (0, f"{places[0]} is made.\n")
    assert (command(), capsys.readouterr().out) == (0, f"{places[0]} is there, and fits.\n")
    monkeypatch.setattr(class_archive, "what_it_fits", lambda: "Java 21 and these jars")
    assert (command(), capsys.readouterr().out) == (0, f"{places[0]} is made.\n")


def test_java_25_makes_a_cache_in_the_place_of_the_archive(
    tmp_path: Path, places: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command() == 0
    monkeypatch.setattr(class_archive, "what_it_fits", lambda: "Java 25 and these jars")
    java_of(monkeypatch, tmp_path / "java", "25")
    capsys.readouterr()
    cache = places[0].with_suffix(".aot")
    assert (command(), capsys.readouterr().out) == (0, f"{cache} is made.\n")
    assert (command(), capsys.readouterr().out) == (0, f"{cache} is there, and fits.\n")
    assert not places[0].exists()
    assert archive_option(places).startswith(f'-XX:AOTCache="{cache}" ')
    # An older Java would end with code 1.
    java_of(monkeypatch, tmp_path / "java", "21.0.4")
    assert archive_option(places) == ""


@pytest.mark.parametrize("option", [*MAKES_ARCHIVE, "-Dnothing="])
def test_a_jvm_that_makes_an_archive_uses_none(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(spark_settings, "archive_option", lambda: "-XX:SharedArchiveFile=there")
    chosen = spark_settings.settings({"spark.driver.extraJavaOptions": f"{option}made"})
    assert ("-XX:SharedArchiveFile=there" in chosen["spark.driver.extraJavaOptions"]) == (option == "-Dnothing=")


def test_the_archive_of_a_package_that_is_read_only_is_in_the_cache(
    places: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    places[0].parent.touch()  # root, too, can't make a directory of it
    assert (command(), capsys.readouterr().out) == (0, f"{places[1]} is made.\n")
    assert places[1].read_text() == "classes"


@pytest.mark.parametrize(("home", "where"), [("", "on the PATH"), ("/nowhere", "in JAVA_HOME=/nowhere")])
def test_without_java_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: str, where: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["mirror-connect archive"])
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", home)
    assert command() == 1
    said = capsys.readouterr().err
    assert said.startswith(f"mirror-connect: no archive of Java's classes: there is no java {where}: install Java 17 ")


def test_without_a_place_for_the_archive_the_command_names_them(
    places: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for place in places:
        place.parent.touch()
    assert command() == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert [str(place.parent) for place in places if str(place.parent) not in said] == []


def test_an_archive_that_can_not_be_made_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "LOAD_ALL", "raise SystemExit('no Java here')")
    with pytest.raises(RuntimeError, match=r"^no Java here$"):
        make_archive(tmp_path / "share" / "spark.jsa")
    assert os.listdir(tmp_path / "share") == []


class Query:
    """A query that ends, or goes on, without having had an epoch."""

    def __init__(self, *, active: bool) -> None:
        self.lastProgress, self.isActive = None, active

    def stop(self) -> None: ...


@pytest.mark.parametrize("active", [False, True], ids=["the_query_ended", "the_epoch_does_not_end"])
def test_an_archive_of_a_spark_that_did_no_work_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    jvm = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    gateway = SimpleNamespace(proc=jvm, shutdown=lambda: None)
    opened = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway), stop=lambda: None)
    monkeypatch.setattr(class_archive, "open_session", lambda _settings: opened)
    monkeypatch.setattr(class_archive, "start_clock", lambda *_: Query(active=active))
    monkeypatch.setattr(class_archive, "EPOCH_S", 0.2)
    with pytest.raises(RuntimeError, match=r"^Spark's first epoch did not end"):
        class_archive.load_all(str(tmp_path / "made.jsa"))
    assert jvm.wait(10) == 0


def test_the_command_says_what_follows_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(class_archive, "LOAD_ALL", "pass")
    monkeypatch.setattr(make_archive, "__defaults__", (tmp_path / "spark.jsa",))
    class_archive.main()
    assert capsys.readouterr().err == (
        "No archive of Java's classes (Java wrote none): Spark starts without one, in twice the time.\n"
    )
    assert sys.prefix in str(ARCHIVE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_process_leaves_nothing(tmp_path: Path, number: int) -> None:
    program = "import sys; from pathlib import Path; from mirror_connect.spark_jobs import class_archive as it\n"
    program += f"it.LOAD_ALL = 'import time; time.sleep(60)'; archive = Path({str(tmp_path)!r}, 'a.jsa')\n"
    program += "make = it.make_archive; it.make_archive = lambda: make(archive); it.main()"
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL) as process:
        wait_for_state(lambda: any(tmp_path.iterdir()), "it has begun")
        process.send_signal(number)
        process.wait(30)
    assert (process.returncode != 0, list(tmp_path.iterdir())) == (True, [])


def test_what_a_killed_process_left_is_removed_by_a_later_one(tmp_path: Path, places: list[Path]) -> None:
    archive = places[0]
    old, young = (archive.parent / f"making-{name}" for name in ("old", "young"))
    for left in (old, young):
        (left / "warehouse").mkdir(parents=True)
    os.utime(old, (1_000_000, 1_000_000))
    make_archive(archive)
    assert sorted(path.name for path in archive.parent.iterdir()) == ["making-young", "spark.fits", "spark.jsa"]
