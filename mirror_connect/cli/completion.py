"""`mirror-connect completion SHELL`: prints a script with which bash, zsh or fish completes commands, options and files.

The script holds the whole table. So a completion starts no Python, which would take longer than typing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from mirror_connect.cli.commands import COMMANDS, FILE, Command, Option

WRONG_USAGE: Final = 2
_GLOBAL: Final = ("--help", "--version")


def main() -> NoReturn:
    """Entry point."""
    arguments = sys.argv[1:]
    if len(arguments) != 1 or arguments[0] not in SCRIPTS:
        print(COMMANDS["completion"].usage, file=sys.stderr)
        sys.exit(WRONG_USAGE)
    print(SCRIPTS[arguments[0]]())
    sys.exit(0)


def bash() -> str:
    """For bash: where nothing of ours fits, readline completes files."""
    cases = [f"      {row.name}) words='{_words(row)}'; files='{row.name if row.files else ''}' ;;" for row in _rows()]
    values = "|".join(sorted({f"--{each.name}" for row in _rows() for each in row.options if each.value}))
    return "\n".join(
        (
            "_mirror_connect() {",
            "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words='' files=''",
            "  COMPREPLY=()",
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f"    words='{' '.join((*COMMANDS, *_GLOBAL))}'",
            "  else",
            '    case "${COMP_WORDS[1]}" in',
            *cases,
            "    esac",
            "  fi",
            f'  case "$before" in {values}) return ;; esac',
            '  case "$word" in -*) files="" ;; esac',
            '  [ -n "$files" ] || COMPREPLY=($(compgen -W "$words" -- "$word"))',
            "}",
            "complete -o bashdefault -o default -F _mirror_connect mirror-connect",
        )
    )


def zsh() -> str:
    """For zsh: to be sourced, or a file `_mirror-connect` in a directory of $fpath."""
    lines = ["#compdef mirror-connect", "_mirror-connect() {", "  if (( CURRENT == 2 )); then"]
    listed = (*(f"{row.name}:{row.summary}" for row in _rows()), *_GLOBAL)
    lines += [f"    local -a commands=({' '.join(_quoted(each) for each in listed)})"]
    lines += ["    _describe command commands", "    return", "  fi", "  local command=$words[2]"]
    lines += ["  shift words", "  (( CURRENT-- ))", "  case $command in"]
    for row in _rows():
        specs = [_zsh_option(each) for each in row.options]
        specs += ["*:file:_files"] if row.files else [f"1:word:({' '.join(row.words)})"] if row.words else []
        lines += [f"    {row.name}) _arguments {' '.join(_quoted(each) for each in specs)} ;;"]
    lines += ["  esac", "}"]
    # Called by the completion itself it completes; sourced it announces itself.
    lines += ['if [ "$funcstack[1]" = _mirror-connect ]; then _mirror-connect "$@"']
    lines += ["else compdef _mirror-connect mirror-connect; fi"]
    return "\n".join(lines)


def fish() -> str:
    """For fish: a file in its folder of completions."""
    base = "complete -c mirror-connect"
    lines = [f"{base} -f"]
    lines += [f"{base} -n __fish_use_subcommand -a {row.name} -d {_quoted(row.summary)}" for row in _rows()]
    lines += [f"{base} -n __fish_use_subcommand -l {name.removeprefix('--')}" for name in _GLOBAL]
    for row in _rows():
        of_row = f"{base} -n '__fish_seen_subcommand_from {row.name}'"
        if row.files:
            lines.append(f"{of_row} -F")
        if row.words:
            lines.append(f"{of_row} -a {_quoted(' '.join(row.words))}")
        for option in row.options:
            value = {"": "", FILE: " -r -F"}.get(option.value, " -x")
            lines.append(f"{of_row} -l {option.name}{value} -d {_quoted(option.meaning)}")
    return "\n".join(lines)


SCRIPTS: Final[Mapping[str, Callable[[], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _rows() -> list[Command]:
    return list(COMMANDS.values())


def _words(row: Command) -> str:
    return " ".join((*row.words, *(f"--{each.name}" for each in row.options)))


def _zsh_option(option: Option) -> str:
    meaning = "".join(f"\\{each}" if each in "[]:\\" else each for each in option.meaning)
    action = {"": "", FILE: f":{FILE}:_files"}.get(option.value, f":{option.value}: ")
    return f"--{option.name}[{meaning}]{action}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
