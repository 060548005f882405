"""`mirror-connect pause`, `resume`, `stop`, `restart`, `delete`: of connectors by name or pattern."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from mirror_connect.check.command_line import say
from mirror_connect.cli.rest.command_run import action_parser, run_action
from mirror_connect.cli.rest.failures import FINE, CommandFailed, WrongUsage
from mirror_connect.cli.rest.figures import plain
from mirror_connect.cli.rest.selection import chosen_names, confirm, is_pattern
from mirror_connect.cli.rest.worker_client import WorkerClient, connector_path

# Of one connector; what was done, in words.
Change = Callable[[WorkerClient, str, argparse.Namespace], str]
# `NAME/0`. A connector whose name has a slash can't be reached by REST at all.
_TASK: Final = "/"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of all of them."""
    parser.add_argument("connectors", nargs="+", metavar="CONNECTOR")
    parser.add_argument("--yes", action="store_true")


def restart_arguments(parser: argparse.ArgumentParser) -> None:
    """Of restart."""
    arguments(parser)
    parser.add_argument("--tasks", action="store_true")
    parser.add_argument("--only-failed", action="store_true")


def pause() -> NoReturn:
    """Entry point of `mirror-connect pause`."""
    _run("pause", _target_state("pause", "is to pause"))


def resume() -> NoReturn:
    """Entry point of `mirror-connect resume`."""
    _run("resume", _target_state("resume", "is to run"))


def stop() -> NoReturn:
    """Entry point of `mirror-connect stop`."""
    _run("stop", _target_state("stop", "is to stop"))


def delete() -> NoReturn:
    """Entry point of `mirror-connect delete`."""

    def change(worker: WorkerClient, name: str, _: argparse.Namespace) -> str:
        worker.send("DELETE", connector_path(name))
        return "deleted; its source offsets stay"

    _run("delete", change, always_ask=True)


def restart() -> NoReturn:
    """Entry point of `mirror-connect restart`."""

    def act(worker: WorkerClient, chosen: argparse.Namespace) -> int:
        tasks = [each for each in chosen.connectors if _TASK in each]
        if tasks and (chosen.tasks or chosen.only_failed):
            raise WrongUsage(f"{tasks[0]} is one task: leave --tasks and --only-failed out")
        if not tasks:
            return _act("restart", _restart, worker, chosen, always_ask=False)
        if len(tasks) < len(chosen.connectors):
            raise WrongUsage("give connectors or tasks, not both")
        return _each(worker, tasks, _restart_task, chosen)

    run_action(action_parser("restart", restart_arguments), act)


def _run(verb: str, change: Change, *, always_ask: bool = False) -> NoReturn:
    run_action(
        action_parser(verb, arguments),
        lambda worker, chosen: _act(verb, change, worker, chosen, always_ask=always_ask),
    )


def _act(verb: str, change: Change, worker: WorkerClient, chosen: argparse.Namespace, *, always_ask: bool) -> int:
    names: Sequence[str] = list(dict.fromkeys(chosen.connectors))
    by_pattern = any(map(is_pattern, names))
    if by_pattern:
        names = chosen_names(names, map(str, worker.get("/connectors") or ()), worker.url)
    if (always_ask or by_pattern) and not confirm(f"{verb} at {worker.url}:", names, yes=chosen.yes):
        print("Nothing is changed.")
        return FINE
    return _each(worker, names, change, chosen)


def _each(worker: WorkerClient, names: Sequence[str], change: Change, chosen: argparse.Namespace) -> int:
    """Does it to each; one that is refused keeps no other from it. The exit code."""
    code = FINE
    for name in names:
        try:
            print(plain(f"{name}: {change(worker, name, chosen)}"), flush=True)
        except CommandFailed as failure:
            say(plain(failure))
            code = max(code, failure.exit_code)
    return code


def _target_state(verb: str, said: str) -> Change:
    def change(worker: WorkerClient, name: str, _: argparse.Namespace) -> str:
        worker.send("PUT", connector_path(name, verb))
        return said

    return change


def _restart(worker: WorkerClient, name: str, chosen: argparse.Namespace) -> str:
    if not (chosen.tasks or chosen.only_failed):
        worker.send("POST", connector_path(name, "restart"))
        return "restarted, without its tasks"
    # --only-failed means tasks, too: those are what fails.
    query = {"includeTasks": "true", "onlyFailed": str(chosen.only_failed).lower()}
    plan = worker.send("POST", connector_path(name, "restart"), **query) or {}
    states = [(plan.get("connector") or {}).get("state"), *_states(plan)]
    restarting = states.count("RESTARTING")
    if not restarting:
        return "nothing of it has failed, so nothing restarts"
    connector = "the connector" if states[0] == "RESTARTING" else ""
    parts = filter(None, (connector, _tasks(states[1:].count("RESTARTING"))))
    return f"{' and '.join(parts)} {'restarts' if restarting == 1 else 'restart'}"


def _restart_task(worker: WorkerClient, task: str, _: argparse.Namespace) -> str:
    name, _slash, number = task.rpartition(_TASK)
    if not name or not number.isdecimal():
        raise WrongUsage(f"{task} is no task: give one such as mirror-source/0")
    worker.send("POST", connector_path(name, "tasks", number, "restart"))
    return "restarted"


def _states(plan: Mapping[str, Any]) -> list[Any]:
    return [each.get("state") for each in plan.get("tasks") or ()]


def _tasks(number: int) -> str:
    return "" if not number else f"{number} task" if number == 1 else f"{number} tasks"
