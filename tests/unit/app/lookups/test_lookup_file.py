"""Files of lookups that a worker may read, and links that lead elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirror_connect.app.config.allowed_paths import NO_FILES, LookupPaths
from mirror_connect.app.lookups.loaded_lookup import BadLookupError
from mirror_connect.app.lookups.lookup_file import ForbiddenLookup, file_problem, opened_lookup
from mirror_connect.connectors.mirror.lookups import ALLOWED_PATHS

SECRET = b"secret"


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """`data/r.csv`, and beside it `database/r.csv`; links in `data` to both and to the folder; `to_data` is one, too."""
    for folder in ("data", "database"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data" / "r.csv").write_bytes(b"fine")
    (tmp_path / "database" / "r.csv").write_bytes(SECRET)
    for link, target in (("own.csv", "data/r.csv"), ("out.csv", "database/r.csv"), ("out", "database")):
        os.symlink(tmp_path / target, tmp_path / "data" / link)
    os.symlink(tmp_path / "data", tmp_path / "to_data")
    return tmp_path


def content(path: Path | str, within: Path) -> bytes:
    with opened_lookup(str(path), LookupPaths((str(within),))) as descriptor:
        return os.read(descriptor, 100)


@pytest.mark.parametrize("path", ["data/r.csv", "data/own.csv", "data/out/../r.csv"])
def test_a_file_in_the_directory_is_read_also_by_a_link_within_it(places: Path, path: str) -> None:
    assert content(f"{places}/{path}", places / "data") == b"fine"


def test_the_directory_itself_may_be_a_link(places: Path) -> None:
    assert content(places / "to_data" / "r.csv", places / "to_data") == b"fine"
    with pytest.raises(ForbiddenLookup):
        content(places / "to_data" / "out.csv", places / "to_data")


@pytest.mark.parametrize("path", ["database/r.csv", "data/../database/r.csv", "data/out.csv", "data/out/r.csv"])
def test_a_file_elsewhere_is_not_read_whatever_leads_there(places: Path, path: str) -> None:
    with pytest.raises(ForbiddenLookup, match=f"{ALLOWED_PATHS} has {places}/data"):
        content(f"{places}/{path}", places / "data")
    assert file_problem(f"{places}/{path}", NO_FILES, may_come=True) == NO_FILES.refusal()


def test_nobody_learns_which_files_exist_elsewhere(places: Path) -> None:
    paths = LookupPaths((str(places / "data"),))
    there, none = (file_problem(f"{places}/{name}", paths, may_come=False) for name in ("database/r.csv", "none.csv"))
    assert there == none == paths.refusal()


@pytest.mark.parametrize(
    ("name", "problem"),
    [("none.csv", "it can't be read: No such file"), ("deep", "it is a directory"), ("a\0.csv", "no file can have")],
)
def test_what_can_not_be_read_may_come_later(places: Path, name: str, problem: str) -> None:
    (places / "data" / "deep").mkdir()
    paths = LookupPaths((str(places / "data"),))
    path = f"{places}/data/{name}"
    assert (file_problem(path, paths, may_come=False) or "").startswith(problem)
    assert file_problem(path, paths, may_come=True) is None
    with pytest.raises(BadLookupError):
        content(path, places / "data")
    assert file_problem(f"{places}/data/r.csv", paths, may_come=False) is None
