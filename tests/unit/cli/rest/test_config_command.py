"""`mirror-connect config CONNECTOR` and `apply`, against the real REST interface of a worker in memory."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.connect_worker import source_config
from tests.unit.cli.rest.conftest import Mirror, Served

LOGIN = "source.cluster.sasl.jaas.config"


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_config_is_shown_without_its_secrets_unless_asked_for(served: Served, mirror: Mirror) -> None:
    served.put(
        "orders",
        **{LOGIN: 'x required password="hunter22";', "target.cluster.ssl.key.password": "${file:/secrets:password}"},
    )
    shown = json.loads(mirror("config", "orders", "--worker", served.url, "-o", "json").out)
    assert (shown[LOGIN], shown["target.cluster.ssl.key.password"]) == ("[hidden]", "${file:/secrets:password}")
    whole = mirror("config", "orders", "--secrets", "--worker", served.url, "-o", "json").out
    assert json.loads(whole) == served.config("orders")
    table = mirror("config", "orders", "--worker", served.url)
    assert ("topics orders" in table.texts, "hunter22" in table.out) == (True, False)


def test_apply_creates_changes_and_leaves_alone(served: Served, mirror: Mirror, tmp_path: Path) -> None:
    file = write(tmp_path / "orders.json", source_config(topics="a"))
    dry = mirror("apply", file, "--dry-run", "--worker", served.url)
    assert (dry.code, dry.out.splitlines()[0]) == (0, f"orders: would be created  ({file})")
    assert "  + topics = a" in dry.out.splitlines()
    done = mirror("apply", file, "--worker", served.url)
    assert (done.code, done.out) == (0, f"orders: created  ({file})\n")
    assert served.config("orders") == source_config(topics="a", name="orders")

    served.run(served.worker.state("orders", "RUNNING", ["RUNNING"]))
    before = served.worker.written()
    done = mirror("apply", file, "--worker", served.url)
    assert (done.code, done.out) == (0, f"orders: unchanged  ({file})\n")
    assert served.worker.written() == before

    write(tmp_path / "orders.json", {**source_config(topics="a,b"), "tasks.max": 2})
    done = mirror("apply", file, "--worker", served.url)
    assert done.out.splitlines() == [
        f"orders: changed  ({file})",
        "  - topics = a",
        "  + topics = a,b",
        "  + tasks.max = 2",
    ]
    assert served.config("orders") == source_config(topics="a,b", tasks__max="2", name="orders")


def test_a_dry_run_validates_shows_and_writes_nothing(served: Served, mirror: Mirror, tmp_path: Path) -> None:
    served.put("orders")
    served.run(served.worker.state("orders", "RUNNING", ["RUNNING"]))
    before = served.worker.written()
    write(tmp_path / "new.json", source_config(name="new"))
    write(
        tmp_path / "orders.properties",
        "".join(f"{key}={value}\n" for key, value in source_config(name="orders").items()),
    )
    (tmp_path / "notes.txt").write_text("no connector")
    done = mirror("apply", str(tmp_path), "--dry-run", "--worker", served.url)
    assert (done.code, done.err) == (0, "")
    assert [line for line in done.out.splitlines() if not line.startswith(" ")] == [
        f"new: would be created  ({tmp_path}/new.json)",
        f"orders: unchanged  ({tmp_path}/orders.properties)",
    ]
    assert served.worker.written() == before


def test_if_one_is_refused_nothing_is_sent(served: Served, mirror: Mirror, tmp_path: Path) -> None:
    write(tmp_path / "a.json", source_config())
    write(tmp_path / "b.json", source_config(tasks__max="abc", replication__factor="x"))
    done = mirror("apply", str(tmp_path), "--worker", served.url)
    assert (done.code, done.err) == (1, "")
    assert "  tasks.max: Invalid value abc for configuration tasks.max" in done.out
    assert f"b: refused  ({tmp_path}/b.json)" in done.out.splitlines()
    assert done.out.splitlines()[-1] == "1 config is refused, so nothing is sent."
    assert served.worker.written() == []


def test_a_secret_is_in_no_diff(served: Served, mirror: Mirror, tmp_path: Path) -> None:
    served.put("orders", **{LOGIN: "before-hunter22"})
    file = write(tmp_path / "orders.json", source_config(**{LOGIN: "after-hunter22"}))
    done = mirror("apply", file, "--worker", served.url)
    assert done.out.splitlines()[1:] == [f"  - {LOGIN} = [hidden]", f"  + {LOGIN} = [hidden]"]
    assert served.config("orders")[LOGIN] == "after-hunter22"


def test_an_initial_state_is_one_of_a_new_connector(served: Served, mirror: Mirror, tmp_path: Path) -> None:
    body = {"name": "orders", "config": source_config(), "initial_state": "stopped"}
    assert mirror("apply", "-f", write(tmp_path / "any.json", body), "--worker", served.url).code == 0
    served.run(served.worker.state("orders", "STOPPED"))


def test_standard_input_needs_a_name(
    served: Served, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(source_config()).encode())))
    done = mirror("apply", "-", "--name", "piped", "--worker", served.url)
    assert (done.code, done.out.splitlines()[0]) == (0, "piped: created  (standard input)")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(source_config()).encode())))
    assert "it has no name" in mirror("apply", "-", "--worker", served.url).err


@pytest.mark.parametrize(
    ("files", "arguments", "said"),
    [
        ({}, (), "name a file or directory"),
        ({}, ("{d}",), "has no .json or .properties file"),
        ({}, ("{d}/nowhere.json",), "nowhere.json"),
        ({"a.json": '{"a": "hunter22'}, ("{d}/a.json",), "it is not valid JSON"),
        ({"a.json": {"name": "x"}, "b.json": {"name": "x"}}, ("{d}",), "both have the connector x"),
        ({"a.json": {"name": "x"}}, ("{d}/a.json", "--name", "y"), "has the connector x, not y"),
        ({"a.json": {}, "b.json": {}}, ("{d}", "--name", "y"), "--name is for one file"),
        ({"a.json": {"name": "x", "p": "[hidden]"}}, ("{d}/a.json",), "has [hidden] as p"),
    ],
)
def test_a_file_that_makes_no_sense_is_named_before_anything_is_asked(
    mirror: Mirror, tmp_path: Path, files: dict[str, Any], arguments: tuple[str, ...], said: str
) -> None:
    for name, content in files.items():
        write(tmp_path / name, content)
    directory = tmp_path / "empty" if arguments == ("{d}",) and not files else tmp_path
    directory.mkdir(exist_ok=True)
    done = mirror("apply", *(each.format(d=directory) for each in arguments), "--worker", "http://127.0.0.1:9")
    assert (done.code, done.out, done.err.count("\n"), said in done.err) == (2, "", 1, True), done.err
    assert "hunter22" not in done.err


@pytest.mark.parametrize("more", [("--dry-run",), ()])
def test_the_class_in_a_file_leads_to_no_other_resource(
    served: Served, mirror: Mirror, tmp_path: Path, more: tuple[str, ...]
) -> None:
    served.put("victim")
    hostile = {"name": "new", "connector.class": "x/../../connectors/victim/pause?"}
    done = mirror("apply", write(tmp_path / "new.json", hostile), *more, "--worker", served.url)
    assert done.code != 0
    assert not [each for each in served.worker.written() if each.startswith("target-state")]
