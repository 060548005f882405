"""The ACL commands of docs/guide/security.md grant what docs/rights.md lists, and no right is there without a reason."""

from __future__ import annotations

from typing import Final

from tests.e2e import guide_acls
from tests.e2e.rights_table import Row, rows
from tests.e2e.test_rights import MISSING, NOT_HERE, OWN, USERS, Missing, row_of

# Rights whose lack no test of test_rights.py shows: user, operation, name → what happens without it.
EXPLAINED: Final = {
    ("the worker's user", "WRITE", "mirror-configs"): "REST refuses each config: without the right nothing begins",
    (
        "the worker's user",
        "WRITE",
        "mirror-offsets",
    ): "for offsets that are set by REST, and copied ACLs that are removed",
    ("the worker's user", "DESCRIBE_CONFIGS", "mirror-*"): "a check is left out",
    ("the worker's user", "CREATE", "mirror-*"): "the topics are there after the first start",
    ("the source user", "DESCRIBE", "orders*"): "a group that may not be described counts as gone",
    ("the source user", "CREATE", "mm2-offset-syncs.B.internal"): "the topic is there after the first start",
    ("the target user", "CREATE", "mm2-offset-runs.A.internal"): "the topic is there after the first start",
    ("the producing user", "WRITE", "letters"): "letters wait, and the status names the right, as for a remote topic",
    ("the source user", "READ", "customers"): "the task waits for its lookup, and its trace names the right",
    ("the target user", "READ", "customers"): "the task waits for its lookup, and its trace names the right",
    ("the target user", "CREATE", "letters"): "the connector is FAILED, and names the right",
    ("the target user", "CREATE", "heartbeats"): "the topic is there after the first start",
    ("the target user", "CREATE", "mm2-offset-syncs.A.internal"): "the topic is there after the first start",
    ("the target user", "READ", "mm2-offset-syncs.A.internal"): "as of the topic at the source",
}


def _wanted() -> list[Row]:
    return [row for row in rows() if row.needed != NOT_HERE]


def _shown() -> set[Row]:
    """The rows that test_rights.py takes away."""
    cases = [case if isinstance(case, Missing) else case.values[0] for case in (*MISSING, *OWN)]
    return {row_of(case) for case in cases if isinstance(case, Missing)}


def test_the_commands_grant_what_the_tables_say_and_nothing_else() -> None:
    tables = {
        guide_acls.of_row(row, guide_acls.SOURCE if USERS[row.user][1] else guide_acls.TARGET, USERS[row.user][0])
        for row in _wanted()
    }
    assert guide_acls.granted() == tables


def test_each_right_is_taken_away_by_a_test_or_explained() -> None:
    shown = {(row.user, row.operation, row.name) for row in _shown()}
    wanted = {(row.user, row.operation, row.name) for row in _wanted()}
    assert wanted - shown - EXPLAINED.keys() == set()
    assert EXPLAINED.keys() - wanted == set()
    assert EXPLAINED.keys() & shown == set()
