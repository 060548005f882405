"""Everything that people do on the page, by clicks in a real browser against a real worker: the life of a connector.

How views look and read is shown with a worker in memory (tests/unit/app/rest/test_ui_views.py).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.local import LocalCluster
from tests import browser
from tests.brokers import commit
from tests.browser import WIDE, Browser
from tests.e2e.ends import wait_ends
from tests.e2e.numbered import Writer
from tests.e2e.product import Product
from tests.waiting import wait_for_state

pytestmark = [
    pytest.mark.brokers,
    pytest.mark.spark,
    pytest.mark.tool(*browser.TOOLS),
    pytest.mark.skipif(not browser.available(), reason="there is no chromium with its chromedriver"),
]
# Aliases of its own: other tests' connectors of the shared worker are links of their own then.
SOURCE, TARGET = "paris", "lyon"
NAME, CHECKPOINT = "ui-mirror", "ui-checkpoint"
TOPIC, GROUP = "ui-orders", "ui-billing"
LINK: Final = f"#/links/{SOURCE}-%3E{TARGET}"
RECORDS: Final = 300


@pytest.fixture(scope="module")
def page(product: Product, source_cluster: LocalCluster) -> Iterator[Browser]:
    source_cluster.create_topic(TOPIC, 2)
    with Browser() as started:
        started.size(*WIDE)
        started.open(f"{product.rest.base_url}/ui")
        yield started
        assert started.complaints() == []
        assert started.other_hosts(f"127.0.0.1:{product.port}") == set()
    for name in (NAME, CHECKPOINT):
        if product.rest.get(f"/connectors/{name}").is_success:
            product.delete(name)


def config(product: Product, name: str = NAME) -> dict[str, Any]:
    answer = product.rest.get(f"/connectors/{name}/config")
    return dict(answer.json()) if answer.is_success else {}


def fill(page: Browser, source: LocalCluster, target: LocalCluster, name: str, more: dict[str, str]) -> None:
    page.fill("name", name)
    settings = {
        "source.cluster.alias": SOURCE,
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.alias": TARGET,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
        **more,
    }
    for setting, value in settings.items():
        page.fill(setting, value)


def take_pictures(page: Browser) -> None:
    """For the pages of docs, if `make pictures` asks for them."""
    folder = os.environ.get("UI_PICTURES")
    if folder:
        # Some minutes of a link's life, so that there is something to see.
        time.sleep(120)
        page.picture(Path(folder) / "ui-link.png", 800)
        page.prefer("dark")
        page.go("#/")
        page.wait_text("Links")
        page.picture(Path(folder) / "ui-links-dark.png", 540)
        page.prefer("light")
        page.size(*WIDE)
        page.go(LINK)
        page.wait_text(TOPIC)


def test_a_connector_is_made_with_the_form_that_validates_while_one_types(
    page: Browser, product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    page.click("New connector")
    page.wait_text("Essentials", "Copies topics, their configs and ACLs.")
    page.fill("tasks.max", "many")
    page.wait_text("Invalid value many for configuration tasks.max")
    page.click("Create connector")
    page.wait_text('Missing required configuration "source.cluster.alias"')
    assert not config(product)
    fill(page, source_cluster, target_cluster, NAME, {"topics": TOPIC, "tasks.max": "2"})
    page.click("Mirroring", "summary h2")
    page.fill("refresh.topics.interval.seconds", "1")
    page.fill("replication.factor", "1")
    page.fill("offset-syncs.topic.replication.factor", "1")
    page.fill("sync.topic.acls.enabled", "false")
    page.wait_text("The worker accepts this config.")
    page.click("Create connector")
    page.wait_text(f"{NAME} is created", "MirrorSourceConnector")
    product.wait_running(NAME, 2)
    assert config(product)["topics"] == TOPIC
    assert config(product)["sync.topic.acls.enabled"] == "false"
    page.wait_text("Running", "Source offsets")


def test_what_is_copied_is_seen_in_the_figures_of_its_link(
    page: Browser, product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    page.click("Links")
    page.wait_text(f"{SOURCE} → {TARGET}")
    page.click(f"{SOURCE} → {TARGET}")
    with Writer(source_cluster, TOPIC, 2, 50) as writer:
        page.wait_text("Behind", "Latency", TOPIC)
        wait_for_state(lambda: " ms" in page.row("Topics", TOPIC), "the latency of the topic is shown")
        take_pictures(page)
    wait_ends(target_cluster, f"{SOURCE}.{TOPIC}", writer.counts)
    wait_for_state(lambda: "\t0 s\t0\t" in page.row("Topics", TOPIC), "the topic is not behind any more")
    page.click(TOPIC)
    page.wait_text("Log end", f"{SOURCE}.{TOPIC}")
    for partition, count in writer.counts.items():
        wait_for_state(lambda p=partition, n=count: f"{n:,}" in page.row("Partitions", str(p)), "all is counted")


@pytest.mark.long
def test_a_group_says_what_a_failover_would_cost(
    page: Browser, product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    commit(source_cluster, GROUP, TOPIC, 5, partitions=(0, 1))
    page.click("New connector")
    page.wait_text("Essentials")
    page.fill("connector.class", "MirrorCheckpointConnector")
    page.wait_text("Translates the positions of consumer groups.")
    fill(page, source_cluster, target_cluster, CHECKPOINT, {"groups": GROUP})
    page.click("Mirroring", "summary h2")
    for setting in ("refresh.groups.interval.seconds", "emit.checkpoints.interval.seconds"):
        page.fill(setting, "1")
    page.fill("checkpoints.topic.replication.factor", "1")
    page.click("Create connector")
    page.wait_text(f"{CHECKPOINT} is created")
    product.wait_running(CHECKPOINT)
    page.go(f"{LINK}/groups")
    page.wait_text("If you failed over now: 0 records read again, 0 skipped by 1 group shown here.")


def test_an_edit_shows_its_changes_before_it_is_saved(page: Browser, product: Product) -> None:
    before = config(product)
    page.click("Connectors")
    page.click(NAME)
    page.click("Edit config")
    page.fill("topics", f"{TOPIC},other")
    page.click("Mirroring", "summary h2")
    page.fill("replication.factor", "")
    page.click("Client settings and others", "summary h2")
    page.click("Add a setting")
    page.fill("Name of the setting", "source.consumer.fetch.max.wait.ms")
    page.fill("Value of source.consumer.fetch.max.wait.ms", "200")
    page.click("Review changes")
    page.wait_text("These changes will be saved")
    rows = {kind: page.row("Changes", kind) for kind in ("+ added", "− removed", "~ changed")}
    assert "source.consumer.fetch.max.wait.ms" in rows["+ added"]
    assert "replication.factor" in rows["− removed"]
    assert TOPIC in rows["~ changed"]
    assert f"{TOPIC},other" in rows["~ changed"]
    assert config(product) == before
    page.click("Save changes")
    page.wait_text(f"The config of {NAME} is saved")
    wanted = {**before, "topics": f"{TOPIC},other", "source.consumer.fetch.max.wait.ms": "200"}
    del wanted["replication.factor"]
    wait_for_state(lambda: config(product) == wanted, f"the config is {json.dumps(wanted)}")


def test_it_is_paused_and_resumed(page: Browser, product: Product) -> None:
    page.go(f"#/connectors/{NAME}")
    page.wait_text("Tasks")
    page.click("Pause")
    product.wait_states(NAME, ["PAUSED", "PAUSED", "PAUSED"])
    page.wait_text("Paused")
    page.click("Resume")
    product.wait_running(NAME, 2)
    wait_for_state(lambda: page.named("button", "Pause"), "it can be paused again")


@pytest.mark.long
def test_it_is_restarted_as_a_whole_in_part_and_by_task(page: Browser, product: Product) -> None:
    for name, said in (
        ("The connector", f"{NAME} is restarted"),
        ("Connector and all tasks", f"{NAME} and its tasks are restarted"),
        ("Only what has failed", f"What has failed of {NAME} is restarted"),
    ):
        page.click("Restart", "summary")
        page.click(name)
        page.wait_text(said)
        product.wait_running(NAME, 2)
    page.click("Restart task 1")
    page.wait_text(f"Task 1 of {NAME} is restarted")
    product.wait_running(NAME, 2)


@pytest.mark.long
def test_offsets_of_a_stopped_connector_are_reset(page: Browser, product: Product) -> None:
    assert page.named("button", "Reset offsets")[0].is_enabled() is False
    page.click("Show source offsets")
    page.wait_text(f"cluster={SOURCE}", f"topic={TOPIC}")
    page.click("Stop")
    product.wait_states(NAME, ["STOPPED"])
    page.wait_text("Stopped")
    page.click("Reset offsets")
    page.wait_text("Reset the source offsets?")
    page.click("Cancel", "dialog button")
    assert product.call("GET", f"/connectors/{NAME}/offsets")["offsets"]
    page.click("Reset offsets")
    page.click("Reset offsets", "dialog button")
    page.wait_text(f"The source offsets of {NAME} are reset")
    assert product.call("GET", f"/connectors/{NAME}/offsets") == {"offsets": []}
    page.click("Resume")
    product.wait_running(NAME, 2)


def test_it_is_deleted_only_after_its_name_was_typed(page: Browser, product: Product) -> None:
    page.click("Delete")
    page.wait_text(f"Delete {NAME}?")
    assert page.named("dialog button", "Delete")[0].is_enabled() is False
    page.fill(f"Type {NAME} to confirm", NAME)
    page.click("Delete", "dialog button")
    page.wait_text(f"{NAME} is deleted", "Connectors")
    wait_for_state(lambda: not config(product), f"{NAME} is gone")
    wait_for_state(lambda: not page.row("Connectors", NAME), f"{NAME} is not listed any more")
