"""The `mirror-connect verify` command of a link that MirrorMaker runs today."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mirror_connect.app.config.config_providers import has_reference
from mirror_connect.check.report import VerifyLink
from mirror_connect.connectors import CONNECTORS, MirrorSource
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.record_transform import setting_of_transform, transform_of
from mirror_connect.connectors.mirror.settings import Side, client_properties
from mirror_connect.connectors.mirror.transforms import chain_of
from mirror_connect.connectors.user_code.user_class import is_user_class

REFUSED_POLICY: Final = (
    "There is no command of verify, because the replication policy is refused. Mend it first: it names the copies."
)
DEFAULT_WORKER: Final = "http://localhost:8083"
_POLICY: Final = "replication.policy.class"
_BOOTSTRAP: Final = "bootstrap.servers"
_SIDES: Final[tuple[Side, ...]] = ("source", "target")


def connector_link(
    name: str, config: Mapping[str, str], worker: str = DEFAULT_WORKER, user: str | None = None
) -> VerifyLink | None:
    """Of a source connector on a worker; None for other connectors."""
    if not isinstance(CONNECTORS.get(config.get("connector.class", "")), MirrorSource):
        return None
    if reason := refused_by_verify(config) or not_comparable(config):
        return VerifyLink(name, (), impossible=reason)
    files = [side for side in _SIDES if not _reachable(config, side)]
    options = [name, "--worker", worker, *(("--user", user) if user else ())]
    for side in files:
        options += [f"--{side}", f"{side}.properties"]
    return VerifyLink(name, tuple(options), note=_note(files))


def refused_by_verify(config: Mapping[str, str]) -> str:
    """Why verify refuses the config of a source connector; empty if it takes it, or if that is not known here."""
    if refuses_policy(config):
        return REFUSED_POLICY
    if any(map(has_reference, config.values())):
        # What the connector lacks without them is not known here.
        return ""
    judged = MirrorSource().validate({"name": "check", **config}, config)
    refused = [name for name, result in judged.items() if result.errors]
    if not refused:
        return ""
    return f"There is no command of verify, because it refuses the config, too. Mend it first: {', '.join(refused)}."


def not_comparable(config: Mapping[str, str]) -> str:
    """Why there is nothing to compare, or no way to find it; empty if copies of a flow can be compared."""
    if refuses_policy(config):
        return REFUSED_POLICY
    setting = _transforming(config)
    if not setting:
        return ""
    return (
        f"There is no command of verify, because {setting} changes records. Then copies differ from their originals. "
        "Compare them with a consumer of your own."
    )


def refuses_policy(config: Mapping[str, str]) -> bool:
    """Whether the replication policy of a source connector is refused. verify would refuse it, too."""
    value = config.get(_POLICY)
    if not value or has_reference(value) or is_user_class(value):
        return False
    return bool(MirrorSource().validate(config, config)[_POLICY].errors)


def _transforming(config: Mapping[str, str]) -> str:
    """The setting by which records become others; empty if none does. A RegexRouter changes names alone."""
    try:
        if not chain_of(config).keeps_records:
            return "transforms"
        transform = transform_of(config)
    except ConfigError:
        # It is told for itself, or a config provider has the value.
        return ""
    return "" if transform is None else setting_of_transform(transform)


def _reachable(config: Mapping[str, str], side: Side) -> bool:
    """Whether the config alone says how to connect and log in."""
    clients = (client_properties(config, side, "consumer"), client_properties(config, side, "admin"))
    given = {name: value for client in clients for name, value in client.items()}
    return bool(given.get(_BOOTSTRAP)) and not any(map(has_reference, given.values()))


def _note(sides: Sequence[str]) -> str:
    if not sides:
        return ""
    files = " and ".join(f"{side}.properties" for side in sides)
    clusters = " and the ".join(sides)
    return f"First write {files}: the client properties of the {clusters} cluster, which the config does not have."
