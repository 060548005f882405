"""States of connectors and tasks, and which state may follow which.

The target state (in the config topic) is what a user asked for. The state (in the status topic) is what was observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class TargetState(StrEnum):
    """What a user asked for; names as in the config topic."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


# The names of `initial_state`, in any case, when a connector is created.
INITIAL_STATES: Final[Mapping[str, TargetState]] = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


class State(StrEnum):
    """The observed state; names as in the status topic. Tasks are never STOPPED: a stopped connector has none."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


class IllegalMove(Exception):
    """A state can't follow another; usually a late report of something that is over."""

    def __init__(self, before: State | None, after: State) -> None:
        super().__init__(f"{before} is not followed by {after}")


MOVES: Final[Mapping[State | None, frozenset[State]]] = {
    None: frozenset(State),
    State.UNASSIGNED: frozenset(State) - {State.UNASSIGNED},
    State.RUNNING: frozenset(State) - {State.RUNNING},
    State.PAUSED: frozenset(State) - {State.PAUSED},
    State.STOPPED: frozenset(State) - {State.STOPPED},
    State.RESTARTING: frozenset(State) - {State.RESTARTING},
    # Never RUNNING or PAUSED without a restart: what has failed stays failed when it is paused and resumed.
    State.FAILED: frozenset({State.STOPPED, State.RESTARTING, State.UNASSIGNED}),
}


def move(before: State | None, after: State) -> State:
    """The state after the move; IllegalMove if the table has no such move. `before` is None if the state is unknown."""
    if after not in MOVES[before]:
        raise IllegalMove(before, after)
    return after
