"""The table of moves, every pair of it."""

from __future__ import annotations

import itertools

import pytest

from mirror_connect.app.herder.lifecycle import IllegalMove, State, move

FORBIDDEN = {(state, state) for state in State} | {(State.FAILED, State.RUNNING), (State.FAILED, State.PAUSED)}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_every_move_but_the_forbidden_ones_is_in_the_table(before: State, after: State) -> None:
    if (before, after) in FORBIDDEN:
        with pytest.raises(IllegalMove):
            move(before, after)
    else:
        assert move(before, after) is after


@pytest.mark.parametrize("state", list(State))
def test_a_state_that_is_not_known_yet_may_become_any(state: State) -> None:
    assert move(None, state) is state
