"""Every view of the page in a real browser: what it shows, that nothing stands in the way of a reader, and what it asks for.

The worker is in memory and its figures are made up; tests/e2e/test_ui.py has a real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import uvicorn
from selenium.webdriver.common.keys import Keys

from mirror_connect.app.metrics.connector_figures import TaskPlace
from mirror_connect.app.rest.application import create_application
from mirror_connect.app.rest.basic_auth import Authenticator, UsersFile
from mirror_connect.app.rest.http_servers import server_settings
from tests import browser
from tests.browser import PATIENCE_S, PHONE, WIDE, Browser
from tests.fakes import figures_of_links as made_up
from tests.fakes.connect_worker import FakeWorker, source_config
from tests.fakes.figures_of_links import FakeLinks
from tests.paths import ROOT
from tests.waiting import wait_for_state

pytestmark = [
    pytest.mark.tool(*browser.TOOLS),
    pytest.mark.skipif(not browser.available(), reason="there is no chromium with its chromedriver"),
]
TOPICS: Final = 2000
LINK: Final = "#/links/A-%3EB"
AXE: Final = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"


@dataclasses.dataclass
class Site:
    """A worker in memory that serves the page, in a thread of its own."""

    url: str
    links: FakeLinks
    # Of its tasks: of a Spark cluster.
    places: list[TaskPlace]

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    def reset(self) -> None:
        """All figures as in the beginning."""
        self.links.__dict__.update(figures())
        self.places.clear()


def figures() -> dict[str, Any]:
    unknown = {"records": None, "bytes": None}
    return {
        "links": [
            made_up.link(
                "A",
                "B",
                connectors=[made_up.connector("mirror-A-B")],
                topics=TOPICS,
                partitions=4 * TOPICS,
                problems=[made_up.problem("mirror-A-B")],
                more_problems=3,
                lag={"records": 18_234, "seconds": 9.75, "partitions_behind": 3, "partitions_unknown": 1},
            ),
            made_up.link("B", "A", connectors=[made_up.connector("mirror-B-A")]),
            made_up.link("C", "B", state="PAUSED", connectors=[made_up.connector("paused", "PAUSED", ["PAUSED"])]),
            made_up.link(
                "D",
                "B",
                state="FAILED",
                connectors=[made_up.connector("broken", "FAILED", [])],
                lag=made_up.UNKNOWN_LAG,
                rate=unknown,
                latency_ms=None,
                topics=None,
            ),
        ],
        "topics": [made_up.topic(number) for number in range(TOPICS)],
        "groups": [
            made_up.group("billing"),
            made_up.group("audit", read_again=12),
            made_up.group("new", read_again=None, skipped=None, checkpoint_latency_ms=None, synced_ms=None),
        ],
        "points": made_up.hour(),
        "read_only": False,
        "refusal": None,
        "absent": False,
        "asked": [],
    }


@contextlib.contextmanager
def serving(*authenticators: Authenticator) -> Iterator[Site]:
    listener = socket.create_server(("127.0.0.1", 0))
    ready, found, places = threading.Event(), list[Any](), list[TaskPlace]()

    async def serve() -> None:
        async with FakeWorker().running() as worker:
            config = source_config(
                tasks__max="2", source__cluster__sasl__jaas__config="module password=hunter2-hunter2;"
            )
            await worker.herder.configs.create("mirror-A-B", config, None)
            await worker.state("mirror-A-B", "RUNNING", ["RUNNING", "RUNNING"])
            links = FakeLinks(create_application(worker.herder, authenticators))
            server = uvicorn.Server(server_settings(links))
            server.install_signal_handlers = lambda: None  # type: ignore[attr-defined,unused-ignore]
            worker.supervisor.on_executors = places
            found.extend([links, server])
            ready.set()
            await server._serve([listener])

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    ready.wait(60)
    links, server = found
    yield Site(f"http://127.0.0.1:{listener.getsockname()[1]}", links, places)
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def _site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.fixture
def site(_site: Site) -> Site:
    _site.reset()
    return _site


@pytest.fixture
def page(chromium: Browser, site: Site) -> Iterator[Browser]:
    """The page as it is opened first: wide, in daylight."""
    chromium.size(*WIDE)
    chromium.prefer("light")
    chromium.open("about:blank")
    chromium.complaints()
    chromium.other_hosts("")
    chromium.open(f"{site.url}/ui")
    chromium.wait_text("Links", "A → B")
    yield chromium
    assert chromium.complaints() == []
    assert chromium.other_hosts(site.host) == set()


def show(page: Browser, hash_: str, *texts: str) -> None:
    page.go(hash_)
    page.wait_text(*texts)


# Those marked `long` are made of parts that the others have, too.
VIEWS: Final = [
    pytest.param("#/", ["Needs attention", "A → B"], [], id="links"),
    pytest.param(LINK, ["orders-0000", "of 2,000 topics"], [], id="topics"),
    pytest.param(f"{LINK}/groups", ["If you failed over now", "billing"], [], id="groups"),
    pytest.param(f"{LINK}/connectors", ["mirror-A-B"], [], id="connectors_of_a_link", marks=pytest.mark.long),
    pytest.param(f"{LINK}/topics/orders-0001", ["Log end", "Partition"], [], id="partitions", marks=pytest.mark.long),
    pytest.param("#/connectors", ["2 of 4 connectors"], [], id="connectors", marks=pytest.mark.long),
    pytest.param("#/workers", ["1 worker with 2 tasks", "worker-1:8083"], [], id="workers", marks=pytest.mark.long),
    pytest.param(
        "#/connectors/mirror-A-B",
        ["Tasks", "Config", "source.cluster.alias"],
        [],
        id="connector",
        marks=pytest.mark.long,
    ),
    pytest.param("#/connectors/mirror-A-B", ["Tasks", "Config"], ["Delete"], id="question"),
    pytest.param(
        "#/connectors/mirror-A-B/edit",
        ["Essentials"],
        ["Mirroring", "Security"],
        id="edit",
        marks=pytest.mark.long,
    ),
    pytest.param("#/create", ["Essentials"], ["Create connector"], id="create"),
]


@pytest.mark.parametrize(("hash_", "texts", "clicks"), VIEWS)
def test_nothing_of_a_view_keeps_a_reader_out(page: Browser, hash_: str, texts: list[str], clicks: list[str]) -> None:
    show(page, hash_, *texts)
    for name in clicks:
        page.click(name, "button, summary h2")
    assert page.findings() == []
    page.prefer("dark")
    page.size(*PHONE)
    assert page.findings() == []
    assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"), (
        "it scrolls sideways"
    )


def test_a_link_says_how_far_it_is_behind_and_why(page: Browser) -> None:
    row = page.row("Links", "A → B")
    assert "Running, 4 problems" in row
    assert "9.8 s" in row
    assert "18,234" in row
    assert "it is tried again until it has one" in page.text()
    assert "And 3 more problems" in page.text()


def test_unknown_is_said_and_never_0(page: Browser) -> None:
    row = page.row("Links", "D → B")
    assert row.count("unknown") == 6
    assert "0" not in row.replace("Failed", "").split("→")[1].split("unknown")[0]
    show(page, f"{LINK}/groups", "billing")
    assert page.row("Consumer groups", "new").count("unknown") == 3
    assert "12 records read again, 0 skipped by 2 groups shown here; unknown for 1" in page.text()


def test_no_link_is_0_s_behind_while_partitions_are_unknown(page: Browser, site: Site) -> None:
    site.links.links[:] = [made_up.link("A", "B", lag={**made_up.LAG, "partitions_unknown": 2})]
    page.wait_text("How far they are behind is unknown", "lag unknown")
    assert "0 s" not in page.row("Links", "A → B")


def test_tasks_show_their_executors_where_there_are_any(page: Browser, site: Site) -> None:
    show(page, "#/connectors/mirror-A-B", "Tasks")
    assert "Executor" not in page.text()
    site.places[:] = [TaskPlace("mirror-A-B", 0, "3", "host3"), TaskPlace("mirror-A-B", 1, "7", "")]
    page.wait_text("3 on host3")
    assert "3 on host3" in page.row("Tasks", "0")
    show(page, "#/workers", "tasks 0 at executor 3 on host3, 1 at executor 7")


@pytest.mark.long
def test_an_address_that_is_no_text_leads_to_the_links(page: Browser) -> None:
    show(page, "#/links/%", "A → B")


def test_two_thousand_topics_are_searched_sorted_and_paged_with_few_elements(page: Browser, site: Site) -> None:
    show(page, LINK, "1–50 of 2,000 topics")
    rows = 'table[aria-label="Topics"] tbody tr'
    assert page.count(rows) == 50
    assert page.count("*") < 2000
    page.click("Next")
    page.wait_text("51–100 of 2,000 topics", "orders-0050")
    page.fill("Find a topic", "orders-19")
    page.wait_text("1–50 of 100 topics", "orders-1900")
    page.fill("Find a topic", "orders-1999")
    page.wait_text("1 topic")
    assert page.count(rows) == 1
    page.fill("Find a topic", "nothing")
    page.wait_text("No topic matches nothing.")
    page.fill("Find a topic", "-")
    page.wait_text("of 2,000 topics")
    page.click("Rate")
    page.wait_text("orders-1999")
    assert page.count('th[aria-sort="descending"]') == 1


def test_plots_have_a_sentence_and_are_read_with_the_keyboard(page: Browser) -> None:
    show(page, LINK, "Latency")
    said = page.driver.execute_script("return document.querySelector('.plot .surface').getAttribute('aria-label')")
    assert said == "Behind: 0.1 s now, between 0.1 s and 8.1 s in the last hour, unknown at 15 of 360 times"
    assert page.count(".plot .gap") == 2
    page.driver.execute_script("document.querySelector('.plot .surface').focus()")
    page.keys(Keys.ARROW_LEFT)
    assert page.count(".plot .cursor") == 1


def test_the_hour_is_asked_for_once_and_then_its_end(page: Browser, site: Site) -> None:
    show(page, LINK, "Latency", "orders-0000")
    length = page.driver.execute_script("return document.querySelector('.plot .line').getAttribute('d').length")
    site.links.points.append({**site.links.points[-1], "time_ms": made_up.NOW_MS + 10_000, "lag_seconds": 7.5})
    page.wait_text("7.5 s")
    drawn = page.driver.execute_script("return document.querySelector('.plot .line').getAttribute('d').length")
    assert abs(drawn - length) < 100


@pytest.mark.long
def test_a_hidden_page_asks_for_nothing(page: Browser, site: Site) -> None:
    page.wait_text("A → B")
    page.driver.execute_script(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    site.links.asked.clear()
    page.driver.execute_async_script("setTimeout(arguments[0], 7000)")
    assert site.links.asked == []
    page.driver.execute_script("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    page.driver.execute_async_script("setTimeout(arguments[0], 2000)")
    assert site.links.asked == ["admin/links"]


def test_a_reader_keeps_what_was_typed_while_figures_change(page: Browser, site: Site) -> None:
    show(page, "#/create", "Essentials")
    page.fill("source.cluster.alias", "paris")
    site.links.links[0]["lag"] = {**made_up.LAG, "seconds": 1.25}
    page.driver.execute_async_script("setTimeout(arguments[0], 6000)")
    script = "return document.activeElement.id + document.activeElement.value"
    assert page.driver.execute_script(script) == "s-source.cluster.aliasparis"


def test_a_worker_that_is_read_only_has_no_button_that_changes_anything(page: Browser, site: Site) -> None:
    site.links.read_only = True
    page.reload()
    page.wait_text("read-only")
    assert page.named("a", "New connector") == []
    show(page, "#/connectors/mirror-A-B", "Tasks", "Config")
    names = {"Pause", "Resume", "Stop", "Restart", "Edit config", "Reset offsets", "Delete", "Restart task 0"}
    assert [name for name in names if page.named("button, a, summary", name)] == []
    show(page, "#/connectors/mirror-A-B/edit", "read-only for this page")
    assert page.count("form.config") == 0


def test_a_refused_change_is_one_line(page: Browser, site: Site) -> None:
    line = "This worker is a standby: send the request to the leader, http://10.0.0.2:8083/"
    site.links.refusal = (409, line)
    show(page, "#/connectors/mirror-A-B", "Tasks")
    page.click("Pause")
    page.wait_text(f"Refused now: {line}")
    assert page.findings() == []


def test_a_worker_without_its_group_says_which_one_leads(page: Browser, site: Site) -> None:
    nothing = {"lag": made_up.UNKNOWN_LAG, "rate": None, "latency_ms": None, "problems": None, "groups": None}
    site.links.links[:] = [made_up.link("A", "B", leads=False, leader_url="http://10.0.0.2:8083/", **nothing)]
    page.wait_text("no figures and no problems of A->B", "http://10.0.0.2:8083/", "How far they are behind is unknown")
    assert page.findings() == []


def test_records_that_were_skipped_are_named(page: Browser, site: Site) -> None:
    site.links.links[:] = [made_up.link("A", "B", skipped=1234)]
    show(page, LINK, "1,234 records skipped")
    assert page.findings() == []


@pytest.mark.long
def test_another_worker_without_an_answer_is_named_and_its_figures_are_unknown(page: Browser, site: Site) -> None:
    lag = {**made_up.LAG, "partitions_unknown": 24}
    away = made_up.link("A", "B", lag=lag, rate=None, unknown_workers=["10.0.0.2:8083"], leads=False)
    site.links.links[:] = [away, made_up.link("B", "A", leads=False)]
    page.wait_text("Figures of tasks at 10.0.0.2:8083 are unknown", "and 1 lag is unknown")
    assert "unknown" in page.row("Links", "A → B")
    assert "unknown" not in page.row("Links", "B → A")
    assert page.findings() == []


def test_a_connector_that_is_not_there_is_said_for_as_long_as_the_page_asks(page: Browser) -> None:
    line = "No status found for connector nope"
    show(page, "#/connectors/nope", line)
    page.driver.execute_script(
        """
        const [line] = arguments;
        window.missed = 0;
        new MutationObserver(() => { window.missed += !document.body.innerText.includes(line); })
            .observe(document.body, {childList: true, subtree: true, characterData: true});
        performance.clearResourceTimings();
        """,
        line,
    )
    asked = """return ["status", "workers"].every(
        (path) => performance.getEntriesByType("resource").some(({name}) => name.endsWith(`/${path}`)))"""
    wait_for_state(lambda: bool(page.driver.execute_script(asked)), "the page asks again", PATIENCE_S)
    page.wait_text(line)
    assert page.driver.execute_script("return window.missed") == 0
    assert page.named("button", "Show source offsets") == []


def test_the_workers_of_the_group_say_what_they_run(page: Browser) -> None:
    show(page, "#/workers", "worker-1:8083 (this one)")
    row = page.row("Workers", "worker-1:8083")
    assert "leads" in row
    assert "mirror-A-B tasks 0–1" in row.replace("\n", " ")


def test_a_worker_that_does_not_answer_leaves_what_was_known(page: Browser) -> None:
    page.offline(True)
    page.wait_text("The worker does not answer", "What is below is from", "A → B")
    page.offline(False)
    page.wait_gone("The worker does not answer")


def test_a_worker_without_figures_still_shows_its_connectors(page: Browser, site: Site) -> None:
    site.links.absent = True
    page.reload()
    page.wait_text("This address tells no figures", "A → B")
    assert page.row("Links", "A → B").count("unknown") == 7
    show(page, LINK, "mirror-A-B", "2 running")


def test_nothing_is_there_yet(page: Browser, site: Site) -> None:
    site.links.links[:] = []
    page.wait_text("No links yet")
    assert page.findings() == []


def test_secrets_are_masked_until_somebody_asks(page: Browser) -> None:
    show(page, "#/connectors/mirror-A-B", "source.cluster.sasl.jaas.config")
    assert "hunter2" not in page.text()
    page.click("Show source.cluster.sasl.jaas.config")
    page.wait_text("hunter2")
    show(page, "#/connectors/mirror-A-B/edit", "Client settings and others")
    script = "return [...document.querySelectorAll('input')].filter(i => i.value.includes('hunter2')).map(i => i.type)"
    assert page.driver.execute_script(script) == ["password"]


@pytest.mark.long
def test_the_theme_follows_the_system_until_somebody_chooses(page: Browser) -> None:
    colour = "return getComputedStyle(document.body).backgroundColor"
    light = page.driver.execute_script(colour)
    page.prefer("dark")
    assert page.driver.execute_script(colour) != light
    page.click("Theme: auto")
    assert page.driver.execute_script(colour) == light
    page.click("Theme: light")
    page.reload()
    page.wait_text("Theme: dark")
    stored = page.stored()
    assert stored == {"local": {"theme": "dark"}, "session": {}, "cookies": "", "databases": []}
    page.click("Theme: dark")


def test_keys_alone_lead_through_the_page(page: Browser) -> None:
    page.keys(Keys.TAB)
    assert page.driver.execute_script("return document.activeElement.innerText") == "Skip to the content"
    page.keys(Keys.ENTER)
    assert page.driver.execute_script("return document.activeElement.id") == "main"
    for _ in range(12):
        page.keys(Keys.TAB)
        name = page.driver.execute_script("return document.activeElement.getAttribute('aria-label') ?? ''")
        if name.startswith("Link A to B: Running, 4 problems, 9.8 s behind"):
            break
    else:
        pytest.fail("no key leads to a link of the picture")
    page.keys(Keys.ENTER)
    page.wait_text("orders-0000")


def test_a_login_that_the_browser_has_is_enough(chromium: Browser) -> None:
    with serving(UsersFile({"admin": "s3cret"})) as guarded:
        guarded.reset()
        chromium.open(f"http://admin:s3cret@{guarded.host}/ui")
        chromium.wait_text("New connector")
        chromium.go("#/connectors/mirror-A-B")
        chromium.click("Pause")
        chromium.wait_text("mirror-A-B is asked to pause")
        assert chromium.stored()["local"] == {}


def test_the_contract_is_shown_and_nothing_asked_elsewhere(page: Browser, site: Site) -> None:
    page.open(f"{site.url}/docs")
    page.wait_text("/connectors/{name}/restart", "mirror-connect")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("links", made_up.link("A", "B")),
        ("topics", made_up.topic(1)),
        ("groups", made_up.group("a")),
        ("points", made_up.hour()[0]),
    ],
)
def test_the_made_up_figures_have_the_members_of_the_workers(name: str, row: dict[str, Any]) -> None:
    file = {"points": "history"}.get(name, name)
    told = json.loads((ROOT / f"tests/fixtures/links/{file}.json").read_text())[name]
    assert set(row) == set(told[0])


def test_axe_is_as_published() -> None:
    # axe-core 4.14.1, under the Mozilla Public License 2.0.
    assert hashlib.sha256(Path(browser.AXE).read_bytes()).hexdigest() == AXE
