"""The exactly-once settings of a connector's config, as Connect judges them for each worker's own setting."""

from __future__ import annotations

import pytest

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.errors import InvalidConfig
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.exactly_once_rules import NO_EXACTLY_ONCE
from mirror_connect.app.herder.validation import ConfigRules, Validation
from tests.fakes.connect_worker import FakeResolver, source_config

REQUIRED = {"exactly.once.support": "required"}
COMMITTED = {"source.consumer.isolation.level": "read_committed"}
CHECKPOINT = {"connector.class": "MirrorCheckpoint"}
UNSUPPORTED = "The connector does not support exactly-once semantics with the provided configuration."
UNKNOWN = "The connector does not implement the API required for preflight validation of exactly-once"
COMMITTED_ONLY = "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured"
NO_BOUNDARIES = (
    "The connector does not support connector-defined transaction boundaries with the given configuration. Please "
    "reconfigure it to use a different transaction boundary definition."
)


def validation(support: Support) -> Validation:
    return Validation(FakeResolver(), ConfigRules(exactly_once=support), ConfigNotices())


async def said(config: dict[str, str], support: Support, setting: str = "exactly.once.support") -> list[str]:
    """The beginnings of the errors of one setting."""
    made = {"name": "a", **source_config(), **config}
    answer = await validation(support).infos(made["connector.class"], made)
    [found] = [each["value"]["errors"] for each in answer["configs"] if each["value"]["name"] == setting]
    assert answer["error_count"] == len(found)
    return list(found)


@pytest.mark.parametrize(
    ("config", "support", "beginnings"),
    [
        pytest.param({}, Support.DISABLED, [], id="not_asked_for"),
        pytest.param({"exactly.once.support": "requested"}, Support.DISABLED, [], id="requested"),
        pytest.param({**REQUIRED, **COMMITTED}, Support.ENABLED, [], id="there"),
        pytest.param({**REQUIRED, **COMMITTED}, Support.DISABLED, [NO_EXACTLY_ONCE], id="disabled"),
        pytest.param({**REQUIRED, **COMMITTED}, Support.PREPARING, [NO_EXACTLY_ONCE], id="preparing"),
        # The connector's own answer takes the place of Connect's.
        pytest.param(REQUIRED, Support.ENABLED, [COMMITTED_ONLY], id="uncommitted"),
        pytest.param(REQUIRED, Support.DISABLED, [COMMITTED_ONLY], id="uncommitted_and_disabled"),
        pytest.param({"exactly.once.support": "REQUIRED"}, Support.ENABLED, [UNSUPPORTED], id="in_capitals"),
        pytest.param({**REQUIRED, **CHECKPOINT}, Support.ENABLED, [UNKNOWN], id="a_connector_that_does_not_say"),
        pytest.param({**REQUIRED, **CHECKPOINT}, Support.DISABLED, [NO_EXACTLY_ONCE, UNKNOWN], id="both"),
    ],
)
async def test_a_config_that_requires_exactly_once(
    config: dict[str, str], support: Support, beginnings: list[str]
) -> None:
    found = await said(config, support)
    assert [error.startswith(begin) for error, begin in zip(found, beginnings, strict=True)] == [True] * len(found)


@pytest.mark.parametrize("value", ["connector", "CONNECTOR"])
async def test_no_connector_here_defines_its_own_transactions(value: str) -> None:
    found = await said({"transaction.boundary": value}, Support.ENABLED, "transaction.boundary")
    assert found == [NO_BOUNDARIES]


async def test_such_a_config_is_not_stored_either() -> None:
    config = {"name": "a", **source_config(), "transaction.boundary": "connector"}
    with pytest.raises(InvalidConfig, match="does not support connector-defined transaction boundaries"):
        await validation(Support.DISABLED).check(config)


async def test_a_standalone_worker_judges_as_connects_and_still_promises_nothing() -> None:
    assert await said({**REQUIRED, **COMMITTED, "transaction.boundary": "connector"}, Support.NONE) == []
    with pytest.raises(InvalidConfig, match="does not have exactly-once source support"):
        await validation(Support.NONE).check({"name": "a", **source_config(), **REQUIRED, **COMMITTED})
