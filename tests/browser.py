"""A headless Chromium that a test drives: finds what people find, by its words, and keeps what the page asked for.

Debian's chromium and chromium-driver are of one version. A test that uses this is marked `tool("chromium", "chromedriver")`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from deploy.local.watchdog import watchdog
from tests.paths import ROOT
from tests.waiting import wait_for_state

TOOLS: Final = ("chromium", "chromedriver")
AXE: Final = ROOT / "tests" / "vendor" / "axe-core" / "axe.min.js"
WIDE, PHONE = (1280, 900), (390, 844)
# On a machine with many times more work than processors.
PATIENCE_S: Final = 180.0
_MOVED: Final = (StaleElementReferenceException, ElementNotInteractableException, ElementClickInterceptedException)


def available() -> bool:
    """Whether this machine has both programs."""
    return all(shutil.which(name) for name in TOOLS)


class Browser:
    """A context manager. Names that are looked for are those that a screen reader says: text, or an aria-label."""

    def __init__(self) -> None:
        self._home = tempfile.mkdtemp(prefix="chromium-")
        watchdog().guard_directory(self._home)
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or "chromium"
        for switch in (
            "headless=new",
            # Tests may run as root, in a container.
            "no-sandbox",
            "disable-dev-shm-usage",
            "disable-gpu",
            "hide-scrollbars",
            "no-first-run",
            "disable-background-networking",
            "disable-component-update",
            "disable-default-apps",
            "disable-sync",
            # Whatever else it would like to ask: no name but an address of this machine is found.
            "host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            f"user-data-dir={self._home}",
        ):
            options.add_argument(f"--{switch}")
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
        self.driver = webdriver.Chrome(options=options, service=service)
        # Without its driver, a browser that Selenium has started ends by itself.
        self._pid = service.process.pid
        watchdog().guard_process(self._pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.quit()
        watchdog().forget_process(self._pid)
        shutil.rmtree(self._home, ignore_errors=True)
        watchdog().forget_directory(self._home)

    # Where, and how it looks.

    def open(self, url: str) -> None:
        """Go there."""
        self.driver.get(url)

    def go(self, hash_: str) -> None:
        """Another view of the page."""
        self.driver.execute_script("location.hash = arguments[0]", hash_)

    def reload(self) -> None:
        """The page again, from the start."""
        self.driver.refresh()

    def size(self, width: int, height: int) -> None:
        """The size of the window."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, theme: str) -> None:
        """What the system of the reader prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def offline(self, cut: bool) -> None:
        """Whether no request gets through."""
        self.driver.execute_cdp_cmd("Network.enable", {})
        conditions = {"offline": cut, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)

    def picture(self, path: Path, height: int | None = None) -> None:
        """A screenshot of all of the page, or of its first `height` pixels."""
        whole = int(self.driver.execute_script("return document.documentElement.scrollHeight"))
        width = int(self.driver.execute_script("return innerWidth"))
        self.size(width, height or whole)
        time.sleep(0.3)
        path.write_bytes(self.driver.get_screenshot_as_png())

    # What is there.

    def text(self) -> str:
        """All that is visible."""
        return str(self.driver.execute_script("return document.body.innerText"))

    def wait_text(self, *texts: str, seconds: float = PATIENCE_S) -> None:
        """Wait until all of these are visible."""
        wait_for_state(lambda: all(text in self.text() for text in texts), f"the page shows {texts}", seconds)

    def wait_gone(self, text: str, seconds: float = PATIENCE_S) -> None:
        """Wait until it is not visible any more."""
        wait_for_state(lambda: text not in self.text(), f"the page does not show {text}", seconds)

    def named(self, tag: str, name: str) -> list[WebElement]:
        """The visible elements of a tag that have this name."""
        script = """
            return [...document.querySelectorAll(arguments[0])].filter((each) => {
              const said = each.getAttribute("aria-label") ?? each.innerText ?? "";
              return said.trim() === arguments[1] && each.checkVisibility();
            })"""
        return list(self.driver.execute_script(script, tag, name))

    def count(self, selector: str) -> int:
        """How many elements match."""
        return len(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def row(self, table: str, name: str) -> str:
        """The text of a table's row that has this in its first cell; empty if there is none."""
        script = """
            const rows = document.querySelectorAll(`table[aria-label="${arguments[0]}"] tbody tr`);
            return [...rows].find((row) => row.cells[0]?.innerText.startsWith(arguments[1]))?.innerText ?? "" """
        return str(self.driver.execute_script(script, table, name))

    # What people do.

    def click(self, name: str, tag: str = "button, a, summary") -> None:
        """Click what has this name, as soon as it can be clicked."""

        def clicked() -> bool:
            for element in self.named(tag, name):
                if element.is_enabled():
                    return self._tried(element.click, element)
            return False

        wait_for_state(clicked, f"{name} can be clicked", PATIENCE_S)

    def fill(self, label: str, text: str) -> None:
        """Type into a field in the place of what is there, which is found by its id, placeholder or label."""
        script = """
            const wanted = arguments[0];
            const fields = [...document.querySelectorAll("input, select")].filter((each) => each.checkVisibility());
            return fields.find((each) => each.id === `s-${wanted}`) ??
              fields.find((each) => each.placeholder === wanted || each.getAttribute("aria-label") === wanted ||
                [...(each.labels ?? [])].some((label) => label.innerText.startsWith(wanted)))"""
        field = wait_for_state(
            lambda: self.driver.execute_script(script, label), f"there is a field {label}", PATIENCE_S
        )
        if field.tag_name == "select":
            option = field.find_element(By.XPATH, f"./option[normalize-space()='{text}' or @value='{text}']")
            option.click()
            return
        # As people do it: what only sets the value tells the page nothing.
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text or Keys.BACKSPACE)

    def keys(self, *keys: str) -> None:
        """Press keys where the focus is."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def _tried(self, action: Callable[[], None], element: WebElement) -> bool:
        try:
            self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
            action()
        except _MOVED:
            return False
        return True

    # What the page must not do.

    def findings(self) -> list[str]:
        """What axe-core finds: rule, impact and the first elements."""
        if not self.driver.execute_script("return 'axe' in window"):
            self.driver.execute_script(AXE.read_text("utf-8"))
        # What is well needs no list of its elements.
        script = (
            # Colours that are changing have a contrast of the moment.
            "Promise.allSettled(document.getAnimations().map((each) => each.finished))"
            ".then(() => axe.run(document, {resultTypes: ['violations']}))"
            ".then((found) => arguments[0](found.violations), (e) => arguments[0](String(e)))"
        )
        found: Any = self.driver.execute_async_script(script)
        assert isinstance(found, list), found
        return [
            f"{each['id']} ({each['impact']}): {[node['target'] for node in each['nodes'][:4]]} "
            f"{each['nodes'][0]['failureSummary'] if each['nodes'] else ''}"
            for each in found
        ]

    def complaints(self) -> list[str]:
        """Errors of scripts and of the content security policy since the last call, but not answers like 404."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] == "SEVERE" and entry["source"] != "network"
        ]

    def other_hosts(self, own: str) -> set[str]:
        """Hosts besides `own` (host:port) that the page has asked for anything since the last call."""
        hosts = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = urlsplit(message["params"]["request"]["url"])
                if url.scheme in ("http", "https", "ws", "wss"):
                    hosts.add(url.netloc)
        return hosts - {own}

    def stored(self) -> dict[str, Any]:
        """All that the page has stored in the browser."""
        script = """
            const done = arguments[0];
            indexedDB.databases().then((databases) => done({
              local: {...localStorage}, session: {...sessionStorage}, cookies: document.cookie, databases}))"""
        return dict(self.driver.execute_async_script(script))
