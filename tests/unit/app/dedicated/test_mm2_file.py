"""Whole mm2.properties files: examples of guides, recorded ones, and generated ones."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror_connect.app.dedicated.findings import FindingCode, Mm2Finding, RefusedFile, Severity
from mirror_connect.app.dedicated.mm2_file import findings, read_mm2_config
from tests.contract.mm2_texts import GUIDE
from tests.contract.record_mm2_properties import ENVIRONMENT, recorded
from tests.unit.app.dedicated.mm2_files import IDENTITY, ONE_FLOW, written


def test_clusters_of_the_command_line_choose_the_targets(tmp_path: Path) -> None:
    path = written(tmp_path, ONE_FLOW)
    assert [flow.name for flow in read_mm2_config(path).flows] == ["A->B", "B->A"]
    assert [(flow.name, flow.enabled) for flow in read_mm2_config(path, ["B"]).flows] == [("A->B", True)]
    assert [(flow.name, flow.enabled) for flow in read_mm2_config(path, ["A"]).flows] == [("B->A", False)]


def test_the_whole_process_has_its_properties(tmp_path: Path) -> None:
    rest = (
        "dedicated.mode.enable.internal.rest = TRUE\nlisteners=http://:0\nspark.driver.memory=1g\n"
        # The flows have this one, and Spark must not get it.
        "rest.advertised.port=1\nspark.transform.sql=SELECT * FROM records\nspark.transform.driver.memory=2g\n"
    )
    config = read_mm2_config(written(tmp_path, ONE_FLOW + rest))
    assert config.internal_rest
    assert set(config.process) == {
        "listeners",
        "spark.driver.memory",
        "spark.transform.driver.memory",
        "rest.advertised.port",
    }
    assert config.clusters == ("A", "B")
    assert config.warnings == ()


REFUSED_HERE = {
    "guide: comments behind values": FindingCode.CLUSTER_NAME_WRONG,
    "guide: one way without clusters": FindingCode.CLUSTERS_MISSING,
    "guide: two ways": FindingCode.BOOTSTRAP_MISSING,
    "other guide: blank separator": FindingCode.EXPRESSION_INVALID,
}


@pytest.mark.parametrize("name", GUIDE)
def test_examples_of_guides_run_or_are_refused_for_what_would_not_run_either(tmp_path: Path, name: str) -> None:
    errors = [each.code for each in findings(written(tmp_path, GUIDE[name])) if each.severity is Severity.ERROR]
    assert errors == ([REFUSED_HERE[name]] if name in REFUSED_HERE else [])


@pytest.mark.parametrize("vector", [each for each in recorded("mm2").values() if "error" in each["recorded"]], ids=str)
def test_what_mirror_maker_refuses_is_refused(tmp_path: Path, vector: dict[str, Any]) -> None:
    found = findings(written(tmp_path, vector["text"]), environment=ENVIRONMENT)
    assert any(each.severity is Severity.ERROR for each in found)


LINES = st.sampled_from(
    [
        *(
            "clusters=A,B",
            "clusters=A",
            "clusters=",
            "A.bootstrap.servers=a:1",
            "B.bootstrap.servers=",
            "bootstrap.servers=x:1",
        ),
        *(
            "A->B.enabled=true",
            "B->A.enabled=true",
            "A->C.enabled=true",
            "emit.heartbeats.enabled=false",
            "topics=*",
            "topics=,",
        ),
        *(
            "tasks.max=0",
            "A.producer.acks=7",
            "->",
            "->.",
            "A->",
            ".x=",
            "name=",
            IDENTITY.strip(),
            "groups=a{1,2}",
            "listeners=x",
        ),
        *(
            "config.providers=p",
            "config.providers.p.class=none",
            "x=${p:",
            "B.group.id=",
            "\\",
            "A->B.name=\\u0000",
            "connector.class=x",
        ),
    ]
)


@given(st.lists(LINES, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
def test_any_file_is_read_or_refused_withshown(tmp_path: Path, lines: list[str]) -> None:
    logging.disable()
    try:
        path = written(tmp_path, "\n".join(lines))
        found = findings(path)
        errors = [each for each in found if each.severity is Severity.ERROR]
        assert all(_well_made(each, len(lines)) for each in found)
        if errors:
            with pytest.raises(RefusedFile):
                read_mm2_config(path)
        else:
            config = read_mm2_config(path)
            assert config.flows
            assert list(config.warnings) == found
    finally:
        logging.disable(logging.NOTSET)


def _well_made(finding: Mm2Finding, lines: int) -> bool:
    return (
        (finding.line is None or 1 <= finding.line <= lines)
        and bool(finding.text)
        and not finding.text.endswith(".")
        and "\n" not in finding.shown
    )


@pytest.mark.parametrize("name", ["emit.checkpoints.enabled", "A->B.emit.offset-syncs.enabled"])
def test_a_flow_without_checkpoints_has_the_other_two_connectors(tmp_path: Path, name: str) -> None:
    (flow,) = read_mm2_config(written(tmp_path, f"{ONE_FLOW}{name}=false\n"), ["B"]).flows
    assert list(flow.connectors) == ["MirrorSourceConnector", "MirrorHeartbeatConnector"]
