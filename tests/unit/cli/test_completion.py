"""Completion in real shells: the printed script is loaded, and the shell is asked how a line can go on.

bash comes with every machine that this runs on; zsh and fish are tried where they are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mirror_connect.cli.commands import COMMANDS
from mirror_connect.cli.completion import SCRIPTS
from tests.fakes.links_worker import LinksWorker, answering, link

# The function fills COMPREPLY; where it is empty, readline completes files.
BASH: Final = """
source "$1"
complete -p mirror-connect
COMP_WORDS=($2 "$3"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_mirror_connect
printf '%s\\n' "${COMPREPLY[@]}"
"""
# A terminal in which keys are pressed. Nothing may be typed ahead: zsh lists no matches while keys are waiting.
ZSH: Final = """
zmodload zsh/zpty
zpty shell 'TERM=dumb zsh -f -i'
zpty -w shell 'PROMPT=; stty rows 100; LINES=100; LISTMAX=0; setopt no_beep'
zpty -w shell 'autoload -Uz compinit; compinit -D -u; source '"$1"'; print READY'
zpty -r shell seen '*READY*READY*'
zpty -n -w shell "$2$3"$'\\t\\t'
seen=
while (( SECONDS < 20 )) && [[ $seen != *"$4"* ]]; do zpty -rt shell part && seen+=$part || sleep 0.1; done
sleep 0.5
while zpty -rt shell part; do seen+=$part; done
print -r -- $seen
"""
FISH: Final = 'source $argv[1]; complete -C "$argv[2]$argv[3]"'
# What is typed, up to the word that is to be completed; that word; what is offered, what is not.
CASES: Final = (
    pytest.param("mirror-connect ", "ver", {"verify"}, {"worker"}, id="command"),
    pytest.param("mirror-connect ", "", set(COMMANDS), {"--source"}, id="all_commands"),
    pytest.param("mirror-connect verify ", "--so", {"--source", "--source-alias"}, {"--strict"}, id="option"),
    pytest.param("mirror-connect completion ", "", {"bash", "zsh", "fish"}, {"worker"}, id="words"),
    pytest.param("mirror-connect lag --by ", "", {"link", "topic", "partition"}, {"--limit"}, id="words_of_an_option"),
)
# What is offered, what is not.
Offers = tuple[set[str], set[str]]
# As above, of names that a worker tells; `{url}` is where it is.
ASKED: Final = (
    pytest.param(
        "mirror-connect status --worker {url} ", "", ({"mirror-a", "mirror-b", "other"}, set()), id="connectors"
    ),
    pytest.param("mirror-connect pause --worker {url} ", "mi", ({"mirror-a", "mirror-b"}, {"other"}), id="some"),
    pytest.param(
        "mirror-connect restart --worker {url} ", "mirror-a/", ({"mirror-a/0", "mirror-a/1"}, {"other"}), id="tasks"
    ),
    pytest.param("mirror-connect links --context ", "", ({"here", "away"}, {"A->B"}), id="contexts"),
    pytest.param("mirror-connect config ", "u", ({"use-context"}, {"mirror-a"}), id="verbs"),
    pytest.param(
        "mirror-connect config use-context ", "a", ({"away"}, {"here", "mirror-a"}), id="contexts_behind_a_verb"
    ),
    pytest.param("mirror-connect config ", "o", ({"other"}, {"use-context"}), id="connectors_beside_verbs"),
)
CONNECTORS: Final = ["mirror-a", "mirror-b", "other", "$(touch hacked)", "`touch hacked`", "a name"]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LinksWorker]:
    """A worker, contexts, and `mirror-connect` as the command of this environment."""
    program = tmp_path / "bin" / "mirror-connect"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m mirror_connect.cli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with answering(LinksWorker(links=[link("A->B"), link("B->A")], connectors=dict.fromkeys(CONNECTORS, 2))) as worker:
        contexts = {
            "currentContext": "here",
            "here": {"cluster": worker.url},
            "away": {"cluster": "http://127.0.0.1:9"},
        }
        (tmp_path / ".kcctl").write_text(json.dumps(contexts))
        yield worker
    # Nothing of a worker may be run.
    assert not (tmp_path / "hacked").exists()


def _printed(shell: str, directory: Path) -> Path:
    """A file with the script as the command prints it."""
    command = [sys.executable, "-m", "mirror_connect.cli", "completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    file = directory / "script"
    file.write_text(done.stdout)
    return file


def _ask(program: str, *arguments: str | Path, cwd: Path) -> str:
    shell, *options = program.split()
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} on this machine")
    done = subprocess.run(
        [shell, *options, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize(("typed", "word", "there", "absent"), CASES)
def test_bash_completes(tmp_path: Path, typed: str, word: str, there: set[str], absent: set[str]) -> None:
    first, *offered = _ask("bash --norc -c", BASH, "bash", _printed("bash", tmp_path), typed, word, cwd=tmp_path).split(
        "\n"
    )
    assert first == "complete -o bashdefault -o default -F _mirror_connect mirror-connect"
    assert (there <= set(offered), absent & set(offered)) == (True, set()), offered


@pytest.mark.parametrize(("typed", "word", "offers"), ASKED)
def test_bash_completes_names_that_the_worker_tells(
    asked: LinksWorker, tmp_path: Path, typed: str, word: str, offers: Offers
) -> None:
    there, absent = offers
    script = _printed("bash", tmp_path)
    typed = typed.format(url=asked.url)
    _, *offered = _ask("bash --norc -c", BASH, "bash", script, typed, word, cwd=tmp_path).split("\n")
    assert (there <= set(offered), absent & set(offered)) == (True, set()), offered


@pytest.mark.parametrize(
    ("word", "offered"),
    [("A", r"A-\>B"), ("'A", "A->B"), ("$", r"\$\(touch\ hacked\)"), ("a\\ ", "")],
)
@pytest.mark.usefixtures("asked")
def test_bash_quotes_what_the_worker_tells(tmp_path: Path, word: str, offered: str) -> None:
    script = _printed("bash", tmp_path)
    typed = "mirror-connect status " if word == "$" else "mirror-connect links "
    _, *found = _ask("bash --norc -c", BASH, "bash", script, typed, word, cwd=tmp_path).split("\n")
    assert found[0] == offered


@pytest.mark.parametrize("typed", ["mirror-connect worker ", "mirror-connect verify --source "])
def test_bash_leaves_files_to_readline(tmp_path: Path, typed: str) -> None:
    _, *offered = _ask("bash --norc -c", BASH, "bash", _printed("bash", tmp_path), typed, "", cwd=tmp_path).split("\n")
    assert set(offered) == {""}


@pytest.mark.tool("zsh")
@pytest.mark.parametrize(("typed", "word", "there", "absent"), CASES[1:])
def test_zsh_completes(tmp_path: Path, typed: str, word: str, there: set[str], absent: set[str]) -> None:
    arguments = ("zsh", _printed("zsh", tmp_path), typed, word, max(there))
    offered = set(_ask("zsh -f -c", ZSH, *arguments, cwd=tmp_path).split())
    assert (there <= offered, absent & offered) == (True, set()), offered


@pytest.mark.tool("fish")
@pytest.mark.parametrize(("typed", "word", "there", "absent"), CASES)
def test_fish_completes(tmp_path: Path, typed: str, word: str, there: set[str], absent: set[str]) -> None:
    said = _ask("fish --no-config -c", FISH, _printed("fish", tmp_path), typed, word, cwd=tmp_path)
    offered = {line.partition("\t")[0] for line in said.splitlines()}
    assert (there <= offered, absent & offered) == (True, set()), offered


@pytest.mark.tool("zsh")
@pytest.mark.parametrize(("typed", "word", "offers"), ASKED)
def test_zsh_completes_names_that_the_worker_tells(
    asked: LinksWorker, tmp_path: Path, typed: str, word: str, offers: Offers
) -> None:
    there, absent = offers
    arguments = ("zsh", _printed("zsh", tmp_path), typed.format(url=asked.url), word, max(there))
    offered = set(_ask("zsh -f -c", ZSH, *arguments, cwd=tmp_path).split())
    assert (there <= offered, absent & offered) == (True, set()), offered


@pytest.mark.tool("fish")
@pytest.mark.parametrize(("typed", "word", "offers"), ASKED)
def test_fish_completes_names_that_the_worker_tells(
    asked: LinksWorker, tmp_path: Path, typed: str, word: str, offers: Offers
) -> None:
    there, absent = offers
    script = _printed("fish", tmp_path)
    said = _ask("fish --no-config -c", FISH, script, typed.format(url=asked.url), word, cwd=tmp_path)
    offered = {line.partition("\t")[0] for line in said.splitlines()}
    assert (there <= offered, absent & offered) == (True, set()), offered


@pytest.mark.tool("fish")
def test_fish_completes_files(tmp_path: Path) -> None:
    (tmp_path / "worker.properties").touch()
    script = _printed("fish", tmp_path)
    said = _ask("fish --no-config -c", FISH, script, "mirror-connect worker ", "wor", cwd=tmp_path)
    assert said.split("\t")[0].strip() == "worker.properties"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_script_has_every_command_and_option(shell: str) -> None:
    script = SCRIPTS[shell]()
    missing = [each.name for row in COMMANDS.values() for each in (row, *row.options) if each.name not in script]
    assert missing == []
