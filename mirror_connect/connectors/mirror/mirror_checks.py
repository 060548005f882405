"""Checks that the mirror connectors share: refusals of what Java accepts, to fail at the start or to be ignored silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mirror_connect.connectors.config.config_table import LIST, ValidatedKey
from mirror_connect.connectors.config.config_values import java_text, parse
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.filters import NameFilter
from mirror_connect.connectors.user_code.user_class import is_user_class

# Which class reads a list.
_READ_BY: Final = {
    "topics": "topic.filter.class",
    "topics.exclude": "topic.filter.class",
    "groups": "group.filter.class",
    "groups.exclude": "group.filter.class",
    "config.properties.exclude": "config.property.filter.class",
}


def check_expressions(
    results: dict[str, ValidatedKey],
    config: Mapping[str, str | None],
    as_written: Mapping[str, str | None],
    names: Sequence[str],
) -> None:
    """Adds a complaint for each list with a broken regular expression, declared by the connector or only read by it."""
    for name in names:
        if is_user_class(config.get(_READ_BY[name])):
            continue  # what the list means is the class's matter
        declared = results.get(name)
        entries = declared.parsed if declared else parse(config.get(name), LIST)[1]
        if (declared and declared.errors) or not isinstance(entries, list):
            continue
        try:
            NameFilter.compile(name, entries)
        except ConfigError as error:
            referenced = as_written.get(name) != config.get(name)
            text = ConfigError(name, as_written.get(name), "Not a regular expression") if referenced else error
            undeclared = ValidatedKey(name, None, java_text(as_written.get(name)), None, [])
            results.setdefault(name, undeclared).errors.append(str(text))


def refuse_transforms(results: dict[str, ValidatedKey]) -> None:
    """To write records untransformed where a transformation was asked for would be wrong data, silently."""
    if results["transforms"].parsed and not results["transforms"].errors:
        results["transforms"].errors.append(
            f"Invalid value {results['transforms'].value} for configuration transforms: "
            "transformations are not supported by a connector that copies whole batches, so that none is possible: leave it "
            "out (which topics are copied is said by topics, what they are called by replication.policy.class)"
        )
