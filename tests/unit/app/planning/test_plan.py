"""A plan as JSON, and without secrets."""

from __future__ import annotations

import json

from mirror_connect.app.planning.plan import (
    Action,
    Amount,
    Plan,
    PlannedAcls,
    PlannedConfig,
    PlannedGroup,
    PlannedInternalTopic,
    PlannedTopic,
    Refusal,
)
from mirror_connect.connectors.acls import AclBinding

SECRET = "correct-horse-battery"
LINE = f"refused for {SECRET}"


def test_a_plan_is_json_as_it_is() -> None:
    acl = AclBinding("TOPIC", "LITERAL", "A.t", "User:u", "*", "READ", "ALLOW")
    body = json.loads(json.dumps(Plan("c", "class", acls=PlannedAcls([acl])).as_json()))
    assert body["acls"]["add"] == [
        {
            "resource": "TOPIC",
            "pattern": "LITERAL",
            "name": "A.t",
            "principal": "User:u",
            "host": "*",
            "operation": "READ",
            "permission": "ALLOW",
        }
    ]


def test_no_text_of_a_plan_shows_a_secret() -> None:
    plan = Plan(
        "c",
        "class",
        topics=[PlannedTopic("t", "A.t", Action.REFUSED, False, 1, 0, line=LINE)],
        internal_topics=[PlannedInternalTopic("i", "source", Action.REFUSED, line=LINE)],
        topic_configs=[PlannedConfig("A.t", "flush.ms", "1", None, LINE)],
        groups=[PlannedGroup("g", False, line=LINE)],
        amount=Amount(line=LINE),
        refused=[Refusal("A.t", LINE)],
        remarks=[LINE],
    )
    shown = json.dumps(plan.without({SECRET}).as_json())
    assert (SECRET in shown, shown.count("refused for [hidden]")) == (False, 7)
