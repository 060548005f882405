"""From a file to a report: lines, names as written, hidden values, links."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirror_connect.check.judge import check_file
from mirror_connect.check.judgement import Verdict
from tests.paths import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "check"
FILES = sorted(path for path in FIXTURES.iterdir() if path.suffix != ".md")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_finding_of_a_real_configuration_has_the_line_of_its_property(path: Path) -> None:
    report = check_file(str(path))
    lines = path.read_text().splitlines()
    assert report.findings
    for finding in report.findings:
        assert finding.line is not None or finding.name == "name" or finding.value is None
        if finding.line is not None and not (finding.name == "name" and path.suffix == ".json"):
            assert finding.name in lines[finding.line - 1].replace("\\", "")
        if finding.verdict is Verdict.REFUSED:
            assert finding.text
            assert finding.instead


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_secret_is_shown(path: Path) -> None:
    shown = json.dumps(check_file(str(path)).as_json())
    assert "hush-hush" not in shown


def test_twenty_configurations_are_kept_and_their_origin_is_told() -> None:
    origin = (FIXTURES / "ORIGIN.md").read_text()
    assert len(FILES) >= 20
    assert [
        path.name for path in FILES if path.name not in origin and not path.name.startswith(("demo-", "geo-"))
    ] == []


def test_connectors_of_one_name_have_their_own_findings_each(tmp_path: Path) -> None:
    path = tmp_path / "two.json"
    config = {"name": "m", "connector.class": "MirrorSource", "source.cluster.alias": "A"}
    path.write_text(json.dumps([{"name": "m", "config": {**config, "tasks.max": tasks}} for tasks in ("1", "x")]))
    report = check_file(str(path)).as_json()
    assert [len(part["properties"]) for part in report["parts"]] == [4, 4]
    assert [
        [each["here"] for each in part["properties"] if each["property"] == "tasks.max"] for part in report["parts"]
    ] == [["same"], ["refused"]]


def test_the_json_has_the_documented_members(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"connector.class": "MirrorSource",\n"source.cluster.alias": "A",\n"tasks.max": "x"}')
    assert check_file(str(path)).as_json() == {
        "checked": str(path),
        "kind": "connector",
        "refused": 1,
        "different": 0,
        "not_judged": 0,
        "same": 2,
        "notes": [],
        "parts": [
            {
                "name": "a",
                "kind": "a MirrorSource",
                "properties": [
                    {
                        "line": 1,
                        "property": "connector.class",
                        "value": "MirrorSource",
                        "here": "same",
                        "text": None,
                        "instead": None,
                    },
                    {
                        "line": 2,
                        "property": "source.cluster.alias",
                        "value": "A",
                        "here": "same",
                        "text": None,
                        "instead": None,
                    },
                    {
                        "line": 3,
                        "property": "tasks.max",
                        "value": "x",
                        "here": "refused",
                        "text": "Not a number of type INT.",
                        "instead": "Correct the value, or leave the property out.",
                    },
                ],
            }
        ],
        "links": [
            {
                "name": "a",
                "verify": None,
                "first": "There is no command of verify, because it refuses the config, too. Mend it first: tasks.max.",
            }
        ],
    }
