"""deploy/prometheus: the example, the alerts, and that they ask for series that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from mirror_connect.app.exposition.own_series import ALL
from tests.paths import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
RULES = FOLDER / "mirror-connect.rules.yml"
TEST = FOLDER / "mirror-connect.test.yml"
PAGE = (ROOT / "docs" / "metrics.md").read_text("utf-8")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]


def promtool(*arguments: str) -> str:
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool")
    done = subprocess.run(
        ["promtool", *arguments], cwd=FOLDER, check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.tool("promtool")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("check", "rules", "--lint-fatal", RULES.name), id="rules"),
        pytest.param(("check", "config", "prometheus.yml"), id="config"),
        pytest.param(("test", "rules", TEST.name), id="each_alert_fires_and_ends"),
        pytest.param(("test", "rules", "several-workers.test.yml"), id="shares_of_several_workers_count_once"),
    ],
)
def test_promtool_accepts(arguments: tuple[str, ...]) -> None:
    assert "SUCCESS" in promtool(*arguments)


def test_each_alert_has_a_test_that_it_comes_and_ends() -> None:
    cases = yaml.safe_load(TEST.read_text("utf-8"))["tests"]
    assert [case["name"] for case in cases] == [rule["alert"] for rule in rules()]
    for case in cases:
        before, during, after = (bool(each["exp_samples"]) for each in case["promql_expr_test"])
        assert (before, during, after) == (False, True, False), case["name"]


def test_alerts_ask_for_series_and_labels_that_exist() -> None:
    known = {each.name: set(each.labels) for each in ALL} | {"up": {"job", "instance"}}
    for rule in rules():
        for name, matchers in re.findall(r"\b(mirror_connect_\w+|up)\b(?:\{([^}]*)\})?", rule["expr"]):
            assert set(re.findall(r"(\w+)\s*[=!]", matchers)) <= known[name], rule["alert"]


def test_each_alert_says_what_to_do_in_the_page() -> None:
    assert [rule["alert"] for rule in rules() if f"`{rule['alert']}`" not in PAGE] == []
