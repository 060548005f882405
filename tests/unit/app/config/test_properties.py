from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.app.config.properties import (
    UnreadableFile,
    locate_properties,
    parse_properties,
    properties_of,
    read_located_properties,
    read_properties,
)
from tests.contract.record_mm2_properties import recorded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a=1", {"a": "1"}, id="equals_sign"),
        pytest.param("a: 1", {"a": "1"}, id="colon"),
        pytest.param("a 1 2", {"a": "1 2"}, id="white_space"),
        pytest.param("  a  =  1  ", {"a": "1  "}, id="blanks_before_a_value_go_and_those_after_it_stay"),
        pytest.param("a=x \\\n    y", {"a": "x y"}, id="continuation_without_its_indent"),
        pytest.param("# a=1\n! b=2\nc=3", {"c": "3"}, id="comments"),
        pytest.param("a\\ b\\:c=1", {"a b:c": "1"}, id="escapes_in_a_key"),
        pytest.param("a=\\u00e9\\t\\\\", {"a": "é\t\\"}, id="escapes_in_a_value"),
        pytest.param("a=1\na=2", {"a": "2"}, id="the_last_of_equal_keys"),
        pytest.param("a=\nb", {"a": "", "b": ""}, id="no_value"),
        pytest.param("a=${x:y:z}", {"a": "${x:y:z}"}, id="references_are_plain_text"),
        pytest.param('j=X required \\\n  p="a=b";', {"j": 'X required p="a=b";'}, id="a_login_over_two_lines"),
    ],
)
def test_text_is_read_by_javas_grammar(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_workers_file_is_latin_1_as_kafka_loads_it(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_bytes(b"a=\xe9")
    assert read_properties(file) == {"a": "é"}


def test_a_providers_file_is_utf_8(tmp_path: Path) -> None:
    assert properties_of("a=é".encode(), tmp_path / "secrets.properties", encoding="utf-8") == {"a": "é"}


def test_a_missing_file_is_named_with_the_systems_reason(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=f"the properties file {tmp_path}/none: No such file or directory$"):
        read_properties(tmp_path / "none")


def test_a_directory_is_named_with_the_systems_reason(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=f"{tmp_path}: Is a directory$"):
        read_properties(tmp_path)


def test_a_broken_escape_is_reported_by_line_and_without_its_text(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("a=1\npassword=\\user-secret")
    with pytest.raises(UnreadableFile, match="line 2 has a") as caught:
        read_properties(file)
    assert "user" not in str(caught.value)


def test_a_worker_may_be_given_its_file_by_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"a=1")
    os.close(writing)
    try:
        assert read_properties(f"/dev/fd/{reading}") == {"a": "1"}
    finally:
        os.close(reading)


@pytest.mark.parametrize("vector", recorded("properties").values(), ids=lambda vector: vector["name"])
def test_odd_texts_are_read_as_java_reads_them(vector: dict[str, Any]) -> None:
    expected = vector["recorded"].get("properties")
    if expected is None:
        with pytest.raises(ValueError, match="line"):
            parse_properties(vector["text"])
    else:
        assert parse_properties(vector["text"]) == expected


def test_each_property_has_the_line_on_which_it_begins(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_bytes(b"# comment \\\na = 1\r\n\r\nb = x,\\\n   y\rc = 3\n  \na = 2\nd")
    located = read_located_properties(file)
    assert located.values == {"a": "2", "b": "x,y", "c": "3", "d": ""}
    assert located.lines == {"a": 8, "b": 4, "c": 6, "d": 9}
    assert located.repeated == {"a": (2, 8)}


def test_no_value_is_in_the_repr() -> None:
    assert "hunter2" not in repr(locate_properties("password = hunter2"))


def test_a_broken_escape_in_a_located_file_is_reported_by_line(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("# \\user\na=1\npassword=\\user-secret")
    with pytest.raises(UnreadableFile, match="line 3 has a") as caught:
        read_located_properties(file)
    assert "secret" not in str(caught.value)


def test_a_line_of_many_backslashes_is_read_at_once() -> None:
    begun = time.process_time()
    assert len(parse_properties(f"a={BACKSLASHES}b")["a"]) == len(BACKSLASHES) // 2 + 1
    # A search for those at its end that begins at each of them takes minutes.
    assert time.process_time() - begun < 5


BACKSLASHES = "\\" * 200_000


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_mark_of_an_editor_that_would_be_part_of_the_first_name_is_refused(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "worker.properties"
    file.write_bytes("group.id=g\nx=y\n".encode(encoding))
    for read in (read_properties, read_located_properties):
        with pytest.raises(UnreadableFile, match="begins with the byte order mark of UTF-"):
            read(file)


def test_a_mark_in_front_of_a_comment_is_ignored_with_the_comment(tmp_path: Path) -> None:
    file = tmp_path / "worker.properties"
    file.write_bytes("# mine\ngroup.id=g\n".encode("utf-8-sig"))
    assert read_properties(file)["group.id"] == "g"
