from pathlib import Path

import pytest

from benchmarks.accounting import ProcessTree
from benchmarks.sides import MM2, MM2_NO_SYNCS, OURS, Side, SideError, config_of, in_turns

CONFIG = {"topics": "data", "offset-syncs.topic.replication.factor": "1"}


def test_without_offset_syncs_no_setting_is_about_them() -> None:
    assert config_of(MM2_NO_SYNCS, CONFIG) == {"topics": "data", "emit.offset-syncs.enabled": "false"}


@pytest.mark.parametrize("side", [MM2, OURS])
def test_the_others_have_one_and_the_same_config(side: str) -> None:
    assert config_of(side, CONFIG) == CONFIG


def test_no_side_is_always_the_first_one() -> None:
    assert [list(in_turns([MM2, OURS], number)) for number in range(3)] == [[MM2, OURS], [OURS, MM2], [MM2, OURS]]


class Speaking(Side):
    """A side with a log and nothing that runs."""

    def __init__(self, log: Path) -> None:
        self.name = MM2
        self._log = log

    @property
    def log(self) -> Path:
        return self._log

    @property
    def url(self) -> str:
        return ""

    def start(self) -> None:
        self._log.write_text("12:00:00.100 ERROR No way (Herder)\n")

    def tree(self) -> ProcessTree:
        raise NotImplementedError

    def check_alive(self) -> None:
        pass

    def close(self) -> None:
        self._log.unlink(missing_ok=True)


def test_what_fails_on_a_side_carries_the_last_words_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(SideError) as caught, Speaking(tmp_path / "log"):
        raise SideError("it stands still")
    assert caught.value.__notes__ == ["MirrorMaker 2, defaults said: 12:00:00.100 ERROR No way (Herder)"]


def test_a_side_that_has_no_log_any_more_says_nothing(tmp_path: Path) -> None:
    assert Speaking(tmp_path / "none").last_words() == []
