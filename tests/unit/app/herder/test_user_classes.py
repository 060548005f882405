"""A config that names a class of the user's: judged when it comes, and the worker goes on whatever the class does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.app.errors import InvalidConfig
from mirror_connect.app.herder import validation as validation_module
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.validation import ConfigRules, Validation
from mirror_connect.connectors.user_code.user_class import PLUGIN_PATH, Limits
from tests.fakes.connect_worker import FakeResolver, FakeWorker, source_config

MODULE = """
import os, time
class Good:
    def should_replicate_topic(self, topic): return True
class Raising(Good):
    def __init__(self, config): raise ValueError("not with " + config["acme.mode"])
class Waiting(Good):
    def __init__(self, config):
        while not os.path.exists(config["acme.file"]): time.sleep(0.05)
class Empty: pass
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))
    # On a busy machine a process may take long to come.
    monkeypatch.setattr(validation_module, "CLASS_LIMITS", Limits(start_s=60, wait_s=120))


def named(name: str, **more: str) -> dict[str, str]:
    return {"name": "a", **source_config(topic__filter__class=f"python:mine:{name}", **more)}


def validation() -> Validation:
    return Validation(FakeResolver(), ConfigRules(), ConfigNotices())


async def complaint(config: dict[str, str]) -> str:
    with pytest.raises(InvalidConfig) as caught:
        await validation().check(config)
    return str(caught.value)


async def test_a_class_that_can_be_asked_passes() -> None:
    assert await validation().check(named("Good")) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Nowhere", "module mine has no class Nowhere"),
        ("Empty", "class Empty has no method should_replicate_topic(topic)"),
        ("Raising", "Raising(config) raised ValueError: not with haste (line 6 of mine.py)"),
    ],
)
async def test_a_class_that_can_not_is_one_line_of_the_error(name: str, problem: str) -> None:
    told = await complaint(named(name, acme__mode="haste"))
    assert f"Invalid value python:mine:{name} for configuration topic.filter.class: {problem}\n" in told


async def test_validate_has_it_among_the_settings_errors() -> None:
    answer: dict[str, Any] = await validation().infos("MirrorSource", named("Empty"))
    errors = {each["value"]["name"]: each["value"]["errors"] for each in answer["configs"] if each["value"]["errors"]}
    assert (answer["error_count"], list(errors)) == (1, ["topic.filter.class"])


async def test_what_a_config_provider_gave_is_not_quoted() -> None:
    told = await complaint(named("Raising", acme__mode="${file:/secrets:password}"))
    assert ("not with [hidden]" in told, "hunter2" in told) == (True, False)


async def test_a_class_of_which_the_name_is_wrong_has_one_error() -> None:
    told = await complaint({**named("Good"), "topic.filter.class": "python:mine"})
    assert told.count("topic.filter.class") == 1


async def test_what_a_list_means_is_the_matter_of_the_class_that_reads_it() -> None:
    assert await validation().check(named("Good", topics="*.eu")) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("value", ["com.acme.Admin", "python:mine:Good"])
async def test_another_forwarding_admin_is_refused_with_what_to_do(value: str) -> None:
    told = await complaint({"name": "a", **source_config(forwarding__admin__class=value)})
    assert f"Invalid value {value} for configuration forwarding.admin.class: Only org.apache.kafka." in told
    assert "Leave it out." in told


async def test_while_classes_take_their_time_others_are_served(tmp_path: Path) -> None:
    free = tmp_path / "free"
    async with FakeWorker().running() as worker:
        waiting = [
            asyncio.create_task(
                worker.herder.configs.put(name, {**named("Waiting", acme__file=str(free)), "name": name})
            )
            # More than there are threads for short things.
            for name in map(str, range(40))
        ]
        await worker.herder.configs.put("b", source_config())
        await worker.state("b", "RUNNING")
        answered = [each.done() for each in waiting]
        free.touch()
        for each in waiting[2:]:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert not any(answered)
