"""The guide: its pages are listed, its commands are run by a test, and the files that it shows are accepted as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from docs import generate_topologies
from mirror_connect.app.dedicated.findings import FindingCode
from mirror_connect.app.dedicated.mm2_file import findings, read_mm2_config
from mirror_connect.connectors import connector_definition
from tests.e2e.guide_pages import GUIDE, NOT_RUN, read_page
from tests.paths import ROOT

PAGES: Final = sorted(page.stem for page in GUIDE.glob("*.md"))
# Page with commands → the function that runs them, one by one in their order.
RUN_BY: Final = {
    "data-protection": "test_customers_leave_as_the_statement_says_and_nobody_sees_more",
    "failover": "test_failover_and_fail_back_skip_nothing_and_repeat_nothing",
    "from-mirrormaker1": "test_a_connector_goes_on_where_mirror_maker_1_has_committed",
    "from-mirrormaker2": "test_a_consumer_reads_on_while_connect_is_replaced_and_comes_back",
    "from-nothing": "test_from_nothing_ends_with_a_mirrored_topic_and_group",
    "security": "test_a_link_with_tls_logins_and_these_acls_copies",
    "topologies": "test_the_folder_of_a_topology_makes_its_connectors",
}
CONNECTORS: Final = [
    *((name, page.files[name]) for page in map(read_page, PAGES) for name in page.files if name.endswith(".json")),
    *((name, text) for name, text in generate_topologies.files().items() if name.endswith(".json")),
]


def test_every_page_is_listed() -> None:
    listed = (ROOT / "docs" / "README.md").read_text("utf-8")
    assert [page for page in PAGES if f"(guide/{page}.md)" not in listed] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(GUIDE.glob("*.md"))], ids=lambda page: page.stem)
def test_commands_are_those_of_a_checkout(page: Path) -> None:
    # `make setup` puts the command into .venv/bin, which is not in the PATH.
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert re.findall(r"(?:^ *|<\()mirror-connect .*", "\n".join(blocks), re.MULTILINE) == []


def test_every_page_with_commands_is_followed_by_a_test() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests" / "e2e").glob("test_*.py"))
    assert sorted(RUN_BY) == [page for page in PAGES if read_page(page).commands]
    assert [test for test in RUN_BY.values() if f"def {test}(" not in sources] == []


def test_commands_that_no_test_runs_are_on_their_page() -> None:
    assert [
        (page, each) for page, left in NOT_RUN.items() for each in left if each not in read_page(page).commands
    ] == []


@pytest.mark.parametrize(("name", "text"), CONNECTORS, ids=[name for name, _ in CONNECTORS])
def test_a_connector_of_the_guide_is_accepted_without_a_warning(name: str, text: str) -> None:
    read = json.loads(text)
    # A file for POST has the config inside.
    written = {"name": Path(name).stem, **read.get("config", read)}
    # As a config provider's content.
    config = {key: re.sub(r"\$\{[^}]*\}", "0123456789abcdef0123456789abcdef", value) for key, value in written.items()}
    definition = connector_definition(config["connector.class"])
    errors = {key: result.errors for key, result in definition.validate(config).items() if result.errors}
    assert (errors, definition.warnings(config)) == ({}, [])


def test_topologies_are_made_from_their_table() -> None:
    made = generate_topologies.files()
    assert {name: text for name, text in made.items() if (ROOT / name).read_text("utf-8") != text} == {}, (
        generate_topologies.COMMAND
    )
    there = {str(path.relative_to(ROOT)) for path in (GUIDE / "topologies").rglob("*") if path.is_file()}
    assert there <= made.keys()


@pytest.mark.parametrize("topology", generate_topologies.TOPOLOGIES, ids=lambda topology: topology.name)
def test_the_file_of_a_topology_has_its_flows_and_no_findings(topology: generate_topologies.Topology) -> None:
    file = GUIDE / "topologies" / topology.name / "mm2.properties"
    # A way back without copies only emits heartbeats.
    found = [each.shown for each in findings(file) if each.code is not FindingCode.ONLY_HEARTBEATS]
    flows = {(flow.source, flow.target) for flow in read_mm2_config(file).flows if flow.enabled}
    assert (found, flows) == ([], set(topology.flows))


@pytest.mark.parametrize(
    ("title", "cluster", "topics"),
    [
        pytest.param("Active/passive", "primary", ["orders"], id="nothing_comes_back"),
        pytest.param("Active/active", "east", ["orders", "west.orders"], id="a_copy_ends_where_it_came_from"),
        pytest.param("Aggregation", "K", ["orders", "A.orders", "B.orders", "C.orders"], id="one_from_each"),
        pytest.param("Forwarding", "D", ["orders", "C.orders", "C.B.orders", "C.B.A.orders"], id="all_in_front"),
    ],
)
def test_the_topics_of_a_topology_follow_from_its_flows(title: str, cluster: str, topics: list[str]) -> None:
    (topology,) = [each for each in generate_topologies.TOPOLOGIES if each.title == title]
    assert topology.topics()[cluster] == topics
