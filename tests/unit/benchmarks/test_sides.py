import pytest

from benchmarks.sides import MM2, MM2_NO_SYNCS, OURS, config_of, in_turns

CONFIG = {"topics": "data", "offset-syncs.topic.replication.factor": "1"}


def test_without_offset_syncs_no_setting_is_about_them() -> None:
    assert config_of(MM2_NO_SYNCS, CONFIG) == {"topics": "data", "emit.offset-syncs.enabled": "false"}


@pytest.mark.parametrize("side", [MM2, OURS])
def test_the_others_have_one_and_the_same_config(side: str) -> None:
    assert config_of(side, CONFIG) == CONFIG


def test_no_side_is_always_the_first_one() -> None:
    assert [list(in_turns([MM2, OURS], number)) for number in range(3)] == [[MM2, OURS], [OURS, MM2], [MM2, OURS]]
