"""Which versions of a plugin can be asked for; texts recorded from Kafka Connect 4.3.1."""

from __future__ import annotations

import pytest

from mirror_connect.app.errors import BadRequest
from mirror_connect.app.herder.plugins import check_available, check_form, plugin_settings

HEARTBEAT = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"


@pytest.mark.parametrize(
    "version",
    [
        *(
            "4.3.1",
            "latest",
            "[4,5]",
            "[4.3.1]",
            "(,4.3.1]",
            "[4.3.1,)",
            "(4.3,4.4)",
            "[1,2],[4,5]",
            "4.3.1.0",
            ",",
            "(,)",
        ),
        *("4.3.01", "4.3.1.RELEASE", "[4.3.1.Final]", "[4.3.1-alpha,4.3.1]", "[4.3.1-SNAPSHOT,)"),
    ],
)
def test_what_names_the_version_there_is_is_taken(version: str) -> None:
    check_form(version)
    check_available(HEARTBEAT, version)


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("9.9", "[9.9,9.9]"),
        ("abc", "[abc,abc]"),
        ("", "[,]"),
        ("[]", "[,]"),
        ("1 2", "[1 2,1 2]"),
        ("x[", "[x[,x[]"),
        ("LATEST", "[LATEST,LATEST]"),
        ("4.3.1-x", "[4.3.1-x,4.3.1-x]"),
        ("(4.3.1-x,)", "(4.3.1-x,)"),
        ("v4.3.1", "[v4.3.1,v4.3.1]"),
        ("9" * 5000, f"[{'9' * 5000},{'9' * 5000}]"),
        ("[1,2]", "[1,2]"),
        ("(4.3.1,5]", "(4.3.1,5]"),
        ("[4,4.3.1)", "[4,4.3.1)"),
        ("[1,2],[5,6]", "[1,2],[5,6]"),
    ],
)
def test_any_other_is_refused_with_what_there_is(version: str, shown: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_available(HEARTBEAT, version)
    assert str(caught.value) == (
        f"Plugin {HEARTBEAT} not found that matches the version range {shown}, available versions: [4.3.1]"
    )


def test_a_plugin_of_two_kinds_has_its_version_twice() -> None:
    with pytest.raises(BadRequest, match=r"JsonConverter not found .*available versions: \[4\.3\.1, 4\.3\.1\]$"):
        plugin_settings("Json", "9")


@pytest.mark.parametrize(
    "version", ["[1,2]," * 1000, "[x", "1]", "(1)", "(1,1)", "[2,1]", "[1,2],[1,3]", "[1,2]x", "[1,2],3", "[,2],[,3]"]
)
def test_a_form_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(BadRequest, match=r"^Invalid version specification: "):
        check_form(version)


def test_a_converter_has_settings_like_a_connector() -> None:
    assert [key["name"] for key in plugin_settings("StringConverter", None)] == ["converter.type", "converter.encoding"]
