"""States of connectors and tasks, and which may follow which.

What is asked (the target state, in the config topic) and what is observed (the state, in the status topic) are two things.
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


class State(StrEnum):
    """What is; names as in the status topic. Tasks are never STOPPED: a stopped connector has none."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


class IllegalMove(Exception):
    """A state can't follow another; a late report of something that is over, as a rule."""

    def __init__(self, before: State | None, after: State) -> None:
        super().__init__(f"{before} is not followed by {after}")


MOVES: Final[Mapping[State | None, frozenset[State]]] = {
    None: frozenset(State),
    State.UNASSIGNED: frozenset(State) - {State.UNASSIGNED},
    State.RUNNING: frozenset(State) - {State.RUNNING},
    State.PAUSED: frozenset(State) - {State.PAUSED},
    State.STOPPED: frozenset(State) - {State.STOPPED},
    State.RESTARTING: frozenset(State) - {State.RESTARTING},
    # Never RUNNING or PAUSED unasked: pausing and resuming something that failed leaves it failed.
    State.FAILED: frozenset({State.STOPPED, State.RESTARTING, State.UNASSIGNED}),
}


def move(before: State | None, after: State) -> State:
    """The state after the move; IllegalMove where the table has none. `before` is None while nothing is known."""
    if after not in MOVES[before]:
        raise IllegalMove(before, after)
    return after
