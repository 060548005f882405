"""`mirror-connect completion SHELL`: prints a script with which bash, zsh or fish completes commands, options and files.

The script holds the whole table. So a completion starts no Python, which would take longer than typing. Only names of
connectors, links and the like are asked for (rest/offered_words.py). They come from elsewhere, so no shell may expand them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from mirror_connect.cli.command_row import FILE, Command, Option
from mirror_connect.cli.commands import COMMANDS

WRONG_USAGE: Final = 2
_GLOBAL: Final = ("--help", "--version")
# Hidden: it is for these scripts.
ASKING: Final = "__words"
# What may follow an option, wherever it is one.
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "output": ("table", "wide", "json", "yaml"),
    "by": ("link", "topic", "partition"),
    "sort": ("name", "lag", "seconds", "rate"),
    "scope": ("worker", "cluster"),
}
# Its values are names that are asked for.
CONTEXT: Final = "context"


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
    cases = [
        f"      {row.name}) words='{_words(row)}'; files='{row.name if row.files else ''}'; asks='{row.asks}' ;;"
        for row in _rows()
    ]
    files = "|".join(sorted({f"--{each.name}" for each in _options() if each.value == FILE}))
    values = "|".join(sorted({f"--{each.name}" for each in _options() if each.value}))
    listed = [
        f"    --{name}{'|-o' if name == 'output' else ''}) words='{' '.join(words)}'; files=''; asks='' ;;"
        for name, words in VALUES.items()
    ]
    return "\n".join(
        (
            "_mirror_connect() {",
            "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words='' files='' asks='' bare each",
            "  COMPREPLY=()",
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f"    words='{' '.join((*COMMANDS, *_GLOBAL))}'",
            "  else",
            '    case "${COMP_WORDS[1]}" in',
            *cases,
            "    esac",
            "  fi",
            '  case "$before" in',
            *listed,
            f"    --{CONTEXT}) words=''; files=''; asks=contexts ;;",
            f"    {files}) return ;;",
            f"    {values}) return ;;",
            "  esac",
            "  case \"$word\" in -*) files=''; asks='' ;; esac",
            '  [ -n "$files" ] || COMPREPLY=($(compgen -W "$words" -- "$word"))',
            '  [ -n "$asks" ] || return',
            # What is typed may begin with a quote, which readline closes.
            "  bare=${word#[\\\"\\']}",
            "  while IFS= read -r each; do",
            '    [[ $each == "$bare"* ]] || continue',
            '    [ "$bare" != "$word" ] || each=$(printf %q "$each")',
            '    COMPREPLY+=("$each")',
            f'  done < <("${{COMP_WORDS[0]}}" {ASKING} "$asks" "${{COMP_WORDS[@]:2}}" 2> /dev/null)',
            "}",
            "complete -o bashdefault -o default -F _mirror_connect mirror-connect",
        )
    )


def zsh() -> str:
    """For zsh: to be sourced, or a file `_mirror-connect` in a directory of $fpath."""
    lines = ["#compdef mirror-connect", "_mirror-connect_asked() {", "  local -a found"]
    lines += [f'  found=("${{(@f)$("$program" {ASKING} $1 "${{(@Q)words[2,-1]}}" 2> /dev/null)}}")']
    lines += ['  (( $#found[1] )) && compadd "${@[2,-1]}" -a found', "}"]
    lines += ["_mirror-connect() {", "  if (( CURRENT == 2 )); then"]
    listed = (*(f"{row.name}:{row.summary}" for row in _rows()), *_GLOBAL)
    lines += [f"    local -a commands=({' '.join(_quoted(each) for each in listed)})"]
    lines += ["    _describe command commands", "    return", "  fi", "  local program=$words[1] command=$words[2]"]
    lines += ["  shift words", "  (( CURRENT-- ))", "  case $command in"]
    for row in _rows():
        specs = [_zsh_option(each) for each in row.options]
        specs += _zsh_words(row)
        lines += [f"    {row.name}) _arguments {' '.join(_quoted(each) for each in specs)} ;;"]
    lines += ["  esac", "}"]
    # Called by the completion itself it completes; sourced it announces itself.
    lines += ['if [ "$funcstack[1]" = _mirror-connect ]; then _mirror-connect "$@"']
    lines += ["else compdef _mirror-connect mirror-connect; fi"]
    return "\n".join(lines)


def fish() -> str:
    """For fish: a file in its folder of completions."""
    base = "complete -c mirror-connect"
    lines = ["function __mirror_connect_asked", "  set -l line (commandline -opc)"]
    # fish gives the words as typed; its own quoting is left to it.
    lines += [f"  $line[1] {ASKING} $argv[1] $line[3..] 2> /dev/null", "end", f"{base} -f"]
    lines += [f"{base} -n __fish_use_subcommand -a {row.name} -d {_quoted(row.summary)}" for row in _rows()]
    lines += [f"{base} -n __fish_use_subcommand -l {name.removeprefix('--')}" for name in _GLOBAL]
    for row in _rows():
        of_row = f"{base} -n '__fish_seen_subcommand_from {row.name}'"
        if row.files:
            lines.append(f"{of_row} -F")
        if row.words:
            lines.append(f"{of_row} -a {_quoted(' '.join(row.words))}")
        if row.asks:
            lines.append(f"{of_row} -a '(__mirror_connect_asked {row.asks})'")
        for option in row.options:
            lines.append(f"{of_row} -l {option.name}{_fish_value(option)} -d {_quoted(option.meaning)}")
    return "\n".join(lines)


SCRIPTS: Final[Mapping[str, Callable[[], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _rows() -> list[Command]:
    return list(COMMANDS.values())


def _options() -> list[Option]:
    return [each for row in _rows() for each in row.options]


def _words(row: Command) -> str:
    return " ".join((*row.words, *(f"--{each.name}" for each in row.options)))


def _zsh_option(option: Option) -> str:
    meaning = "".join(f"\\{each}" if each in "[]:\\" else each for each in option.meaning)
    return f"--{option.name}[{meaning}]{_zsh_value(option)}"


def _zsh_value(option: Option) -> str:
    if option.name == CONTEXT:
        return f":{option.value}:{{_mirror-connect_asked contexts}}"
    if option.name in VALUES:
        return f":{option.value}:({' '.join(VALUES[option.name])})"
    return {"": "", FILE: f":{FILE}:_files"}.get(option.value, f":{option.value}: ")


def _zsh_words(row: Command) -> list[str]:
    if row.files:
        return ["*:file:_files"]
    words = f"({' '.join(row.words)})"
    if not row.asks:
        return [f"1:word:{words}"] if row.words else []
    asked = f"{{_mirror-connect_asked {row.asks}}}"
    if not row.words:
        return [f"*:name:{asked}"]
    return [f'1:name:{{_alternative "words:word:{words}" "asked:name:{asked}"}}', f"2:name:{asked}"]


def _fish_value(option: Option) -> str:
    if option.name == CONTEXT:
        return " -x -a '(__mirror_connect_asked contexts)'"
    if option.name in VALUES:
        return f" -x -a {_quoted(' '.join(VALUES[option.name]))}"
    return {"": "", FILE: " -r -F"}.get(option.value, " -x")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
