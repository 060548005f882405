"""Users' functions of records, `package.module:function`: which may be named, and how one is found.

Unlike users' classes they see records, and run beside each task that uses them. So the worker's file has to allow them by
name. Importing a module runs its code. Therefore it is never imported into the worker, nor into a process that logs in to
a cluster.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final

import mirror_connect
from mirror_connect.connectors.user_code.user_class import PASSED_ON, PLUGIN_PATH

FORM: Final = "package.module:function"
ALLOWED_SETTING: Final = "spark.transform.python.allowed"
# What the worker's setting says, for all processes that import a function.
ALLOWED: Final = "MIRROR_CONNECT_PYTHON_ALLOWED"
_DOTTED: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_NAME: Final = re.compile(rf"(?P<module>{_DOTTED}):(?P<function>[^\W\d]\w*)")
_ENTRY: Final = re.compile(rf"{_DOTTED}(?::[^\W\d]\w*)?")
# How long the worker waits for an import.
CHECK_S: Final = 20.0
# A part of the text of an error.
_SHOWN: Final = 300
# Directories of Python's own modules, and of ours.
_PYTHONS: Final = os.path.dirname(os.__file__) + os.sep
_OURS: Final = os.path.dirname(mirror_connect.__file__) + os.sep


class FunctionProblem(Exception):
    """Why a function can't be used: the end of a sentence that names it."""


def name_problem(name: str) -> str | None:
    """What is wrong with how a function is written; None if nothing is."""
    return None if _NAME.fullmatch(name) else f"it must be written {FORM}"


def entry_problem(entry: str) -> str | None:
    """The same of an entry of the worker's list: a package, a module or a function."""
    return None if _ENTRY.fullmatch(entry) else f"it must be a package, a module, or {FORM}"


def allowed_entries() -> tuple[str, ...]:
    """Those of the worker, in each process that it has started."""
    return tuple(each for each in os.environ.get(ALLOWED, "").split(",") if each)


def is_allowed(name: str, entries: Sequence[str]) -> bool:
    """Whether an entry is the function, its module, or a package above."""
    module, _, _ = name.partition(":")
    return any(name == each or f"{module}.".startswith(f"{each}.") for each in entries)


def refusal(name: str, entries: Sequence[str]) -> str | None:
    """Why the worker does not take the function; None if it does."""
    if is_allowed(name, entries):
        return None
    given = f"has {', '.join(entries)}" if entries else "is not set"
    return f"the worker's file must allow it: {ALLOWED_SETTING} {given}. Name the function there, its module or its package"


def function_path() -> list[str]:
    """Where a function may be besides where all modules are: the worker's plugin.path."""
    return [each for each in os.environ.get(PLUGIN_PATH, "").split(os.pathsep) if each]


def environment() -> dict[str, str]:
    """The environment of a function's process. Not all of the worker's, which may hold secrets."""
    return {name: os.environ[name] for name in (*PASSED_ON, ALLOWED, PLUGIN_PATH) if name in os.environ}


def loaded(name: str, path: Sequence[str]) -> Callable[..., Any]:
    """The function; imports its module. FunctionProblem. `path`: more places of modules, behind all others."""
    if (problem := name_problem(name) or refusal(name, allowed_entries())) is not None:
        raise FunctionProblem(problem)
    module, _, attribute = name.partition(":")
    sys.path.extend(each for each in path if each not in sys.path)
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise FunctionProblem(f"importing {module} raised {described(error)}") from None
        raise FunctionProblem(
            f"there is no module {error.name} for {sys.executable}: install it there, or put it into a directory of "
            "plugin.path"
        ) from None
    except Exception as error:  # noqa: BLE001 — any error is told to the user
        raise FunctionProblem(f"importing {module} raised {described(error)}") from None
    if not callable(found):
        raise FunctionProblem(f"module {module} has no function {attribute}")
    own = getattr(found, "__module__", None) or "builtins"
    # A module brings names of others along, and these are not allowed with it.
    if own != module and not is_allowed(f"{own}:{attribute}", allowed_entries()):
        raise FunctionProblem(f"{module} has {attribute} from {own}, which {ALLOWED_SETTING} does not name")
    return found  # type: ignore[no-any-return]


def described(error: BaseException) -> str:
    """One line about an error of a module, with the line number in the user's file."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 — it is the user's code, too
        text = ""
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line[:_SHOWN] + place_of(error)


def place_of(error: BaseException) -> str:
    """` (line 7 of masking.py)`, of the deepest place in the user's own files; empty if there is none."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_users(each.filename)]
    return f" (line {frames[-1].lineno} of {os.path.basename(frames[-1].filename)})" if frames else ""


def _is_users(path: str) -> bool:
    # Modules of C have a path like pyarrow/table.pxi, and frozen ones <frozen …>.
    if not os.path.isabs(path) or path.startswith(_OURS):
        return False
    if "site-packages" in path:
        return f"site-packages{os.sep}pyarrow{os.sep}" not in path
    return not path.startswith(_PYTHONS)


def function_problem(name: str, seconds: float = CHECK_S) -> str | None:
    """What is wrong with a function here, found by importing it in a process of its own; blocking. None: nothing."""
    command = [sys.executable, "-P", "-m", __name__, json.dumps({"name": name, "path": function_path()})]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment(), timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"importing it takes more than {seconds:g} s"
    try:
        problem = json.loads(done.stdout)["problem"]
    except (ValueError, KeyError, TypeError):
        return f"importing it ended its process (exit code {done.returncode})"
    return None if problem is None else str(problem)


def main() -> None:
    """Of the process above. What the module prints is no answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job = json.loads(sys.argv[1])
    problem = None
    try:
        loaded(job["name"], job["path"])
    except FunctionProblem as error:
        problem = str(error)
    answers.write(json.dumps({"problem": problem}))
    answers.flush()
    # Threads of the module must not hold it.
    os._exit(0)


if __name__ == "__main__":
    main()
