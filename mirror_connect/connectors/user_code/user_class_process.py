"""The process of a user's class: it imports, creates and calls the class, so that the worker survives what that does.

`user_class.py` runs it as a script. The first line of standard input names the class and the limits. Every other line holds
calls, and each call is answered with a line at once. The kernel ends a call that computes too long, also where Python would
handle no signal. The process ends with its parent, and when it has been idle for a while.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import queue
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final

SHOWN: Final = 300
# The exit code of an idle process.
IDLE: Final = 75
# CPU seconds of the whole process. It ends when it is idle, so one that uses an hour has run away.
PROCESSOR_S: Final = 3600
OPEN_FILES: Final = 256
_WORDS: Final = {"bool": "True or False", "str": "a text", "NoneType": "None"}


class Problem(Exception):
    """What is wrong with the class or its answer: the end of a sentence that names the class."""


def main() -> int:
    """Answers calls until standard input ends or the process is idle; returns the exit code."""
    # Ctrl-C is for the worker, which ends this process by the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    # Output of the class goes to standard error: it is no answer.
    os.dup2(2, 1)
    requests: queue.Queue[bytes] = queue.Queue()
    # In a thread: so the end of the pipe ends the process also while the class sleeps.
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    job = json.loads(requests.get())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    # The timer of each call ends it earlier. This limit is for what a class does between calls, or to the timer.
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    # At the end, so that modules there hide no others.
    sys.path.extend(job["path"])
    made: Any = None

    def answer(seconds: float, get: Any, *arguments: Any) -> Any:
        # Without a handler SIGPROF ends the process.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            reply = {"answer": get(*arguments)}
        except Problem as problem:
            reply = {"problem": str(problem)}
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
        return reply

    def make() -> list[str]:
        nonlocal made
        _check_location(job["module"], job["path"], job["elsewhere"])
        made = _made(job["module"], job["class"], job["config"], job["methods"])
        return [name for name in job["methods"] if callable(getattr(made, name, None))]

    if "problem" in answer(job["start_s"], make):
        return 1
    while True:
        try:
            asked = json.loads(requests.get(timeout=job["idle_s"]))
        except queue.Empty:
            return IDLE
        method, expected = asked["method"], job["methods"][asked["method"]]["answers"]
        for arguments in asked["calls"]:
            answer(job["call_s"], _called, made, method, arguments, expected)


def _read(requests: queue.Queue[bytes]) -> None:
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)


def _check_location(module: str, folders: Sequence[str], elsewhere: Sequence[str]) -> None:
    """Refuses a module outside plugin.path, because importing runs code and a connector's config may name any module.

    It finds the package as the import will, which runs no code.
    """
    package = module.partition(".")[0]
    if "*" in elsewhere or any(f"{module}.".startswith(f"{each}.") for each in elsewhere):
        return
    found = importlib.util.find_spec(package)
    if found is not None:
        locations = [*(found.submodule_search_locations or []), *([found.origin] if found.has_location else [])]
        if locations and all(any(_is_in(each, folder) for folder in folders) for each in locations if each is not None):
            return
    raise Problem(
        f"there is no module {package} in a directory of the worker's plugin.path: "
        "put it there, or name it in plugin.modules"
    )


def _is_in(file: str, folder: str) -> bool:
    folder = os.path.realpath(folder)
    return os.path.commonpath([os.path.realpath(file), folder]) == folder


def _made(module: str, name: str, config: Mapping[str, str], methods: Mapping[str, Any]) -> Any:
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise Problem(f"importing module {module} raised {_described(error)}") from None
        raise Problem(
            f"there is no module {error.name} for {sys.executable}: put it into a directory of the worker's plugin.path; "
            "or install it there and name it in plugin.modules"
        ) from None
    except BaseException as error:  # noqa: BLE001 — any error is reported to the user
        raise Problem(f"importing module {module} raised {_described(error)}") from None
    for part in name.split("."):
        found = getattr(found, part, None)
    if not inspect.isclass(found):
        raise Problem(f"module {module} has no class {name}")
    for method, rule in methods.items():
        there = getattr(found, method, None)
        if rule["required"] and (not callable(there) or getattr(there, "__isabstractmethod__", False)):
            raise Problem(f"class {name} has no method {method}({', '.join(rule['arguments'])})")
    try:
        made = _instance(found, config)
    except BaseException as error:  # noqa: BLE001 — any error is reported to the user
        raise Problem(f"{name}(config) raised {_described(error)}") from None
    for method, rule in methods.items():
        there = getattr(made, method, None)
        if callable(there) and not _takes(there, len(rule["arguments"])):
            raise Problem(
                f"method {method} of class {name} can't be called as {method}({', '.join(rule['arguments'])})"
            )
    return made


def _instance(kind: Any, config: Mapping[str, str]) -> Any:
    return kind() if _takes(kind, 0) and not _takes(kind, 1) else kind(config)


def _takes(function: Any, count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:  # Python knows no signature of it
        return True
    return True


def _called(made: Any, method: str, arguments: Sequence[str], expected: Sequence[str]) -> Any:
    call = f"{method}({', '.join(map(repr, arguments))})"
    try:
        answer = getattr(made, method)(*arguments)
    except BaseException as error:  # noqa: BLE001 — any error is reported to the user
        raise Problem(f"{call} raised {_described(error)}") from None
    # Exactly this type: it goes through JSON, where an int could count as True.
    if type(answer).__name__ not in expected:
        raise Problem(f"{call} returned {_shown(answer)}, not {' or '.join(_WORDS[each] for each in expected)}")
    return answer


def _described(error: BaseException) -> str:
    """One line, with the line number in the user's file."""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # noqa: BLE001 — it is the user's code, too
        text = ""
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    return line[:SHOWN] + (f" (line {own[-1].lineno} of {os.path.basename(own[-1].filename)})" if own else "")


def _shown(value: Any) -> str:
    try:
        return repr(value)[:SHOWN]
    except BaseException:  # noqa: BLE001 — it is the user's code, too
        return f"a {type(value).__name__}"


if __name__ == "__main__":
    # Not sys.exit, which would wait for threads of the class and run its exit handlers.
    os._exit(main())
