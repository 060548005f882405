"""Completion in real shells: the printed script is loaded, and the shell is asked how a line can go on.

bash comes with every machine that this runs on; zsh and fish are tried where they are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mirror_connect.cli.commands import COMMANDS
from mirror_connect.cli.completion import SCRIPTS

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
zpty -w shell 'PROMPT=; autoload -Uz compinit; compinit -D -u; source '"$1"'; LISTMAX=0; setopt no_beep; print READY'
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
)


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
