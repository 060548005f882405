"""Every form of a file is recognized, with the line of each property."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mirror_connect.app.config.properties import UnreadableFile
from mirror_connect.check.document import UnknownDocument
from mirror_connect.check.documents import read_documents

CONFIG = '{"connector.class": "X",\n "tasks.max": 2, "sync": true, "gone": null}'


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (CONFIG, ["file"]),
        (f'{{"name": "a", "config": {CONFIG}}}', ["a"]),
        (f'[{{"name": "a", "config": {CONFIG}}}, {{"name": "b", "config": {CONFIG}}}]', ["a", "b"]),
        (f'{{"connectors": [{{"name": "a", "config": {CONFIG}}}]}}', ["a"]),
        (f'{{"a": {{"info": {{"name": "a", "config": {CONFIG}, "tasks": []}}}}}}', ["a"]),
    ],
)
def test_forms_of_connectors(tmp_path: Path, text: str, names: list[str]) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    documents = read_documents(path)
    assert [each.name for each in documents] == names
    for each in documents:
        assert each.kind == "connector"
        assert {name: value for name, value in each.config().items() if name != "name"} == {
            "connector.class": "X",
            "tasks.max": "2",
            "sync": "true",
            "gone": None,
        }
        assert each.settings["tasks.max"].line == (3 if each.name == "b" else 2)


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("\nname=a\nconnector.class=X\n", "connector", "a"),
        ("\n\ngroup.id=g\n", "worker", "file.properties"),
        ("\n\nclusters=A,B\nA->B.enabled=true\n", "mm2", "file.properties"),
        ("\n\nA->B.enabled=true\n", "mm2", "file.properties"),
    ],
)
def test_forms_of_properties(tmp_path: Path, text: str, kind: str, name: str) -> None:
    path = tmp_path / "file.properties"
    path.write_text(text)
    (document,) = read_documents(path)
    assert (document.kind, document.name) == (kind, name)
    assert list(document.settings.values())[-1].line == text.count("\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("foo=bar\n", "neither connector.class nor clusters nor group.id"),
        ("", "neither connector.class nor clusters nor group.id"),
        ("[]", "there is no connector in it"),
        ('{"connector.class": "X", "a": {}}', "line 1: the value of a must be text"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(UnknownDocument, match=problem):
        read_documents(path)


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"Could not read the file .*: No such file"):
        read_documents(tmp_path / "none")
    (tmp_path / "bad.json").write_text('{"a": hush')
    with pytest.raises(UnreadableFile, match="not valid JSON: Expecting value at line 1, column 7") as caught:
        read_documents(tmp_path / "bad.json")
    assert "hush" not in str(caught.value)


def test_aliases_of_yaml_that_stand_for_more_than_memory_holds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "laughs.yaml"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{name}: &{name} [{', '.join([f'*{former}'] * 10)}]" for former, name in pairwise("abcdefghijklm")]
    path.write_text("\n".join(lines))
    with pytest.raises(UnreadableFile, match="its aliases make more than 1,000,000 values of it"):
        read_documents(path)


def test_yaml_that_is_no_utf_8_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "file.yml"
    path.write_bytes(b"kind: \xa7")
    with pytest.raises(UnreadableFile, match=r"it isn't UTF-8 at byte 6$"):
        read_documents(path)
