"""An option that a start command does not have is named, with the one that was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from mirror_connect.app import __main__ as worker
from mirror_connect.app.dedicated import __main__ as dedicated
from mirror_connect.app.foreground import Prepared, WrongUsage
from mirror_connect.app.standalone import __main__ as standalone
from mirror_connect.connectors.secrets import RedactingFilter

COMMANDS = pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(worker.prepare, id="distributed"),
        pytest.param(standalone.prepare, id="standalone"),
        pytest.param(dedicated.prepare, id="dedicated"),
    ],
)
Prepare = Callable[[Sequence[str], RedactingFilter], Prepared]


@COMMANDS
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["-foo"], "there is no option -foo", id="alone"),
        pytest.param(["file", "--foo=bar"], "there is no option --foo", id="with_a_value"),
        pytest.param(["-deamon", "file"], "there is no option -deamon; did you mean -daemon?", id="misspelled"),
        pytest.param(["file", "-daemon"], "-daemon is an option of the start scripts, where it comes first", id="late"),
    ],
)
def test_an_unknown_option_is_named_in_one_line(prepare: Prepare, arguments: list[str], said: str) -> None:
    with pytest.raises(WrongUsage) as raised:
        prepare(arguments, RedactingFilter())
    usage, _, reason = str(raised.value).rpartition(": ")
    assert (usage.startswith("usage: "), reason) == (True, said)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("prepare", [worker.prepare, standalone.prepare])
def test_who_asks_for_help_gets_the_usage_alone(prepare: Prepare) -> None:
    with pytest.raises(WrongUsage, match=r"^usage: connect-\S+ worker.properties( \[.*\])?$"):
        prepare(["--help"], RedactingFilter())


def test_an_option_of_dedicated_mode_is_the_one_that_was_meant() -> None:
    with pytest.raises(WrongUsage, match="there is no option --clustres; did you mean --clusters"):
        dedicated.prepare(["mm2.properties", "--clustres", "B"], RedactingFilter())
