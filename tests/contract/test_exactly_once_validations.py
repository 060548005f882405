"""Configs with exactly-once settings, judged as by a Connect worker of Kafka that has exactly-once on (ORIGIN.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.validation import ConfigRules, Validation
from tests.contract.record_exactly_once import JUDGED
from tests.fakes.connect_worker import FakeResolver

RECORDED: Final = json.loads((Path(__file__).parent / "rest-exactly-once.json").read_text("utf-8"))
VALIDATIONS: Final = [each for each in RECORDED if each["group"] == "validate"]


@pytest.mark.parametrize("exchange", VALIDATIONS, ids=[each["id"] for each in VALIDATIONS])
async def test_every_setting_has_the_value_and_the_errors_that_connect_gives_it(exchange: dict[str, Any]) -> None:
    config = {name: value.replace("{{", "").replace("}}", ":1") for name, value in exchange["request"]["body"].items()}
    validation = Validation(FakeResolver(), ConfigRules(exactly_once=Support.ENABLED), ConfigNotices())
    ours = await validation.infos(config["connector.class"], config)
    assert _judged(ours) == _judged(exchange["response"]["body"])


def _judged(answer: dict[str, Any]) -> dict[str, tuple[str | None, list[str]]]:
    """Value and errors of what was given and what is wrong.

    Not of `source.consumer.*`: a wrong value there is an error of its own here, and fails the task in Connect.
    """
    values = [each["value"] for each in answer["configs"] if not each["value"]["name"].startswith("source.consumer.")]
    return {
        each["name"]: (each["value"], each["errors"])
        for each in values
        if each["errors"] or each["name"].startswith(JUDGED)
    }
