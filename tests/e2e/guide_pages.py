"""The pages of docs/guide as data: the commands and the files that they show.

A block of `sh` has commands. A block behind the line "`name`:" is a file of that name.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from dataclasses import dataclass, field
from typing import Final

from tests.e2e.users_shell import Shell, Started
from tests.paths import ROOT

GUIDE: Final = ROOT / "docs" / "guide"
_BLOCK: Final = re.compile(
    r"(?P<before>[^\n]*)\n+(?P<indent> *)```(?P<kind>\w+)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_NAME: Final = re.compile(r"^\s*`([\w.-]+)`:$")
_FUNCTION: Final = re.compile(r"\w+\(\) ")

# Page → command → why no test runs it as it stands.
NOT_RUN: Final[dict[str, dict[str, str]]] = {
    "from-nothing": {
        "make setup": "the tests run after it",
        ".venv/bin/python -m deploy.local up A:9192 B:9092": "tests/integration/test_local_cluster.py starts clusters so",
    },
    "from-mirrormaker2": {
        "$KAFKA_HOME/bin/connect-distributed.sh connect-distributed.properties": "the test starts the class of this script",
    },
    "data-protection": {
        'sudo mkdir -p /etc/mirror-connect && sudo chown "$USER" /etc/mirror-connect': "the test has another folder",
    },
}


@dataclass
class Page:
    """One page: its name without .md, its commands in order, its files by name."""

    name: str
    commands: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def read_page(name: str) -> Page:
    """The page docs/guide/`name`.md."""
    page = Page(name)
    for block in _BLOCK.finditer((GUIDE / f"{name}.md").read_text("utf-8")):
        text = textwrap.dedent(block["text"])
        if block["kind"] == "sh":
            page.commands += _commands(text)
        elif match := _NAME.search(block["before"]):
            page.files[match[1]] = text
    return page


def _commands(text: str) -> list[str]:
    """The commands of a block: as many lines as the shell takes for one."""
    found, gathered = [], ""
    for line in text.splitlines():
        if not gathered and (not line.strip() or line.startswith("#")):
            continue
        gathered += f"{line}\n"
        checked = subprocess.run(["bash", "-n", "-c", gathered], capture_output=True, check=False)
        if not line.endswith("\\") and checked.returncode == 0:
            found.append(gathered.rstrip("\n"))
            gathered = ""
    assert not gathered, f"no whole command: {gathered}"
    return found


class Follower:
    """Runs the commands of a page in its order: a test names how each begins, and `close` finds those that are left."""

    def __init__(self, page: str, shell: Shell) -> None:
        self.page = read_page(page)
        self.shell = shell
        self._left = [each for each in self.page.commands if each not in NOT_RUN.get(page, {})]
        self._functions = ""
        for name, text in self.page.files.items():
            shell.write(name, text)

    def run(self, begins: str, *, folder: str = "") -> str:
        """What the next command says, which begins so."""
        command = self._next(begins)
        return self.shell.run(self._functions + command, folder=folder)

    def start(self, begins: str) -> Started:
        """Starts the next command, which goes on."""
        command = self._next(begins)
        return self.shell.start(self._functions + command)

    def done(self, begins: tuple[str, ...]) -> None:
        """The next commands that begin so were run in another way."""
        self._skip_functions()
        while self._left and self._left[0].startswith(begins):
            self._left.pop(0)

    def close(self) -> None:
        """AssertionError if a command of the page was not run."""
        self._skip_functions()
        assert self._left == [], f"{self.page.name}.md has commands that its test doesn't run"

    def _next(self, begins: str) -> str:
        self._skip_functions()
        assert self._left, f"{self.page.name}.md has no more commands, and no {begins}"
        command = self._left.pop(0)
        assert command.startswith(begins), f"{self.page.name}.md goes on with {command}, and not with {begins}"
        return command

    def _skip_functions(self) -> None:
        """What defines a function is known to all commands behind it."""
        while self._left and _FUNCTION.match(self._left[0]):
            self._functions += f"{self._left.pop(0)}\n"
