"""A function of records in a source connector's config: what is taken, what is refused, and what others hear of it."""

from __future__ import annotations

import pytest

from mirror_connect.connectors import MirrorSource
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.record_transform import transform_from_json, transform_of
from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import TransformSql

SOURCE = {"name": "link", "connector.class": MirrorSource.class_name, "source.cluster.alias": "A"}
FUNCTION = {"spark.transform.python": " masking:mask ", "spark.transform.secret.SALT": "pepper"}


def errors(config: dict[str, str], written: dict[str, str] | None = None) -> dict[str, list[str]]:
    found = MirrorSource().validate({**SOURCE, **config}, {**SOURCE, **(written or config)})
    return {name: each.errors for name, each in found.items() if each.errors and "bootstrap" not in name}


def test_a_function_with_secrets_is_taken() -> None:
    assert errors(FUNCTION) == {}
    transform = transform_of(FUNCTION)
    assert transform == TransformFunction("masking:mask", ("SALT",), {"SALT": "pepper"})
    assert "pepper" not in repr(transform)
    assert transform is not None
    told = transform_from_json(transform.to_json())
    assert told == TransformFunction("masking:mask", ("SALT",), {})


def test_a_statement_is_told_as_one() -> None:
    transform = transform_of({"spark.transform.sql": "SELECT * FROM records"})
    assert isinstance(transform, TransformSql)
    assert transform_from_json(transform.to_json()) == transform
    assert transform_of({}) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("spark.transform.sq1", "did you mean spark.transform.sql?"),
        ("spark.transform.SQL", "did you mean spark.transform.sql?"),
        ("spark.transform.values.schema", "did you mean spark.transform.value.schema?"),
        ("spark.transform.secrets.salt", "did you mean spark.transform.secret.salt?"),
        ("spark.transform.lookups.regions.schema", "did you mean spark.transform.lookup.regions.schema?"),
        ("spark.transform.driver.memory", "A setting of Spark belongs in the worker's file"),
        ("spark.transform.lookup.allowed.paths", "it belongs in the worker's file"),
        ("spark.transform.python.allowed", "it belongs in the worker's file"),
    ],
)
@pytest.mark.parametrize("more", [FUNCTION, {"spark.transform.sql": "SELECT * FROM records"}, {}])
def test_a_misspelt_setting_is_refused_as_records_would_leave_as_they_are(
    more: dict[str, str], name: str, text: str
) -> None:
    found = errors({**more, name: "geheim"})
    assert list(found) == [name]
    assert text in found[name][0]
    assert "geheim" not in str(found)


@pytest.mark.parametrize(
    ("more", "name", "text"),
    [
        ({"spark.transform.python": "masking"}, "spark.transform.python", "it must be written package.module:function"),
        ({"spark.transform.sql": "SELECT * FROM records"}, "spark.transform.python", "leave out one of them"),
        ({"spark.transform.value.schema": "id INT"}, "spark.transform.value.schema", "A function gets the bytes"),
        ({"spark.transform.secret.a-b": "x"}, "spark.transform.secret.a-b", "the name of a secret has letters"),
        (
            {"verify.follow.enabled": "true"},
            "verify.follow.enabled",
            "leave out this setting, or spark.transform.python",
        ),
    ],
)
def test_what_does_not_fit_is_refused(more: dict[str, str], name: str, text: str) -> None:
    found = errors({**FUNCTION, **more})
    assert list(found) == [name]
    assert text in found[name][0]


def test_what_a_provider_gives_is_refused_and_not_shown() -> None:
    found = errors({"spark.transform.python": "masking:mask"}, {"spark.transform.python": "${file:/x:y}"})
    assert found == {
        "spark.transform.python": [
            "Invalid value ${file:/x:y} for configuration spark.transform.python: it can't come from a config provider"
        ]
    }


@pytest.mark.parametrize("more", [{"spark.transform.python": "x"}, {"spark.transform.sql": "SELECT 1"}])
def test_a_config_that_was_stored_by_others_is_not_guessed_at(more: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        transform_of({**FUNCTION, **more})
