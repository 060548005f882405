"""Validates connector configs, with Connect's texts. They quote references to config providers, never the secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mirror_connect.app.config.allowed_paths import NO_FILES, files_of_lookups
from mirror_connect.app.config.config_reads import ConfigReads
from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.errors import BadRequest, InvalidConfig
from mirror_connect.app.herder.client_properties import OverridePolicy, check_client_properties
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.exactly_once_rules import NO_EXACTLY_ONCE, check_exactly_once, required
from mirror_connect.app.herder.interfaces import Resolver
from mirror_connect.app.herder.plugins import CLASS
from mirror_connect.app.herder.views import Config
from mirror_connect.app.storage.config_records import set_values
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.config.alias_settings import check_aliases
from mirror_connect.connectors.config.converter_settings import check_converters
from mirror_connect.connectors.config.framework_settings import CONNECTOR_KEYS, SOURCE_KEYS
from mirror_connect.connectors.config.plugin_version import KAFKA_VERSION, NoVersion, unavailable
from mirror_connect.connectors.config.table import NULL_REFUSED, ValidatedKey, infos
from mirror_connect.connectors.config.values import parse
from mirror_connect.connectors.definition import NONE_LEFT, ConnectorDefinition, UnknownConnectorClass
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.record_transform import RecordTransform, transform_of
from mirror_connect.connectors.mirror.settings import PRODUCER_OVERRIDE
from mirror_connect.connectors.mirror.transform_sql import OF_STATEMENTS, PYTHON, SQL
from mirror_connect.connectors.secrets import HIDDEN, is_secret, redact, secrets_of
from mirror_connect.connectors.user_code.user_class import SETTINGS, Limits, class_problem, is_user_class

VERSION: Final = "connector.plugin.version"
# The longest that a request waits until a class of the user's is made.
CLASS_LIMITS: Final = Limits(start_s=10.0, wait_s=10.0)
# The same until the file of a lookup is open.
LOOKING_S: Final = 10.0


async def _no_errors(_: Mapping[str, str]) -> list[str]:
    return []


async def _is_right(_: RecordTransform) -> None:
    return None


def _no_files(_: str) -> str:
    return NO_FILES.refusal()


@dataclass(frozen=True, slots=True)
class ConfigRules:
    """The worker's rules for connectors' configs. `converters`: its own, by their settings. `derived`: see ConfigNotices.

    `exactly_once`: its `exactly.once.source.support`.

    `target_errors` finds settings of a resolved config that lead to another cluster than the rest; it may ask clusters.

    `statement_error` asks whether a statement or function can be applied: None, or the wrong setting with one line.

    `lookup_problem` says why the file of a lookup can't be read, None if it can; it blocks.
    """

    override_policy: OverridePolicy = field(default_factory=OverridePolicy)
    offsets_topic: str = ""
    target_errors: Callable[[Mapping[str, str]], Awaitable[list[str]]] = _no_errors
    converters: Mapping[str, str] = field(default_factory=dict)
    derived: bool = False
    exactly_once: Support = Support.DISABLED
    statement_error: Callable[[RecordTransform], Awaitable[tuple[str, str] | None]] = _is_right
    lookup_problem: Callable[[str], str | None] = _no_files


class Validation:
    """Validates with the worker's config providers and rules; `notices` logs what is valid but surprising."""

    def __init__(self, resolver: Resolver, rules: ConfigRules, notices: ConfigNotices) -> None:
        self._reads = ConfigReads(resolver.explained, "validation")
        self._accepted = ConfigReads(resolver.resolve, "accepted")
        self._rules = rules
        self._notices = notices
        # Threads of their own: slow classes of users delay only requests that name such classes.
        self._making = ThreadPoolExecutor(max_workers=2, thread_name_prefix="user-classes")
        # A share that does not answer delays only requests with lookups.
        self._looking = ThreadPoolExecutor(max_workers=2, thread_name_prefix="lookup-files")
        # A config of megabytes takes seconds: on the loop it would delay heartbeats until the worker loses its leadership.
        self._judging = ThreadPoolExecutor(max_workers=2, thread_name_prefix="validation")

    async def infos(self, plugin: str, config: Config) -> dict[str, Any]:
        """The answer of `PUT /connector-plugins/{plugin}/config/validate`."""
        included = config.get(CLASS)
        if included is not None and not _without_suffix(included).endswith(_without_suffix(plugin)):
            raise BadRequest(f"Included connector type {included} does not match request type {plugin}")
        definition, resolved, unresolved = await self._resolved(config)

        def judge() -> tuple[dict[str, ValidatedKey], dict[str, Any]]:
            refused = _of_another_version(definition, resolved, config)
            if refused is not None:
                return {}, infos(resolved[CLASS] or "", CONNECTOR_KEYS, refused.values())
            others = self._of_clients(resolved, config)
            _check_override_types(others, resolved)
            judged = self._judged(definition, resolved, config, others, unresolved)
            return judged, infos(resolved[CLASS] or "", definition.validation_order, judged.values())

        judged, answer = await asyncio.get_running_loop().run_in_executor(self._judging, judge)
        problems = await self._found_elsewhere(judged, resolved, config)
        for info in answer["configs"]:
            errors = problems.get(info["value"]["name"], [])
            info["value"]["errors"].extend(errors)
            answer["error_count"] += len(errors)
        return answer

    async def errors(self, config: Config) -> list[str]:
        """Every error of a config that a request wants to store. BadRequest."""
        return await self._errors(*await self._resolved(config), config)

    async def check(self, config: Config) -> None:
        """Raises InvalidConfig with every error of a config that a request wants to store."""
        definition, resolved, unresolved = await self._resolved(config)
        errors = await self._errors(definition, resolved, unresolved, config)
        if errors:
            raise InvalidConfig(errors)
        # Not on the loop: to find similar names takes time.
        await asyncio.to_thread(
            self._notices.log_once, config.get("name") or "", definition, set_values(resolved), config
        )

    async def accepted(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """The config with its references replaced. From here on clients log in with it, so the log hides its secrets."""
        return await self._accepted.resolve(config)

    async def _errors(
        self, definition: ConnectorDefinition, resolved: Config, unresolved: Mapping[str, str], config: Config
    ) -> list[str]:
        def judge() -> dict[str, ValidatedKey] | list[str]:
            refused = _of_another_version(definition, resolved, config)
            if refused is not None:
                return [error for result in refused.values() for error in result.errors]
            return self._judged(definition, resolved, config, self._of_clients(resolved, config), unresolved)

        judged = await asyncio.get_running_loop().run_in_executor(self._judging, judge)
        if isinstance(judged, list):
            return judged
        errors = [error for result in judged.values() for error in result.errors]
        errors += [error for each in (await self._found_elsewhere(judged, resolved, config)).values() for error in each]
        # Connect would store a config with nulls, and could never start the connector.
        nulls = [name for name, value in config.items() if value is None and not judged[name].errors]
        errors += [NULL_REFUSED] * len(nulls)
        if not errors and self._rules.exactly_once is Support.NONE and required(resolved):
            # Connect's standalone mode takes it, and copies at least once all the same.
            errors.append(NO_EXACTLY_ONCE)
        if not errors:
            await self.accepted(set_values(config))
            errors.extend(await self._rules.target_errors(set_values(resolved)))
        return errors

    def _judged(
        self,
        definition: ConnectorDefinition,
        resolved: Config,
        config: Config,
        of_clients: Mapping[str, ValidatedKey],
        unresolved: Mapping[str, str],
    ) -> dict[str, ValidatedKey]:
        if self._rules.derived:
            resolved, config = definition.of_flow(resolved), definition.of_flow(config)
        return _judged(definition, resolved, config, of_clients, self._rules.exactly_once, unresolved=unresolved)

    def _of_clients(self, resolved: Config, config: Config) -> dict[str, ValidatedKey]:
        return check_client_properties(resolved, config, self._rules.override_policy)

    async def _found_elsewhere(
        self, judged: Mapping[str, ValidatedKey], resolved: Config, config: Config
    ) -> dict[str, list[str]]:
        """Errors, by setting, for which more than the tables is asked: classes of the user's, files, and Spark."""
        found = await self._of_user_classes(judged, resolved, config)
        # The last two once all that is known without them is right.
        if not judged.keys() & {SQL, PYTHON} or any(
            judged[name].errors for name in judged if name.startswith(OF_STATEMENTS)
        ):
            return found
        return found | (await self._of_lookups(resolved, config) or await self._of_statement(resolved))

    async def _of_lookups(self, resolved: Config, config: Config) -> dict[str, list[str]]:
        """Why the worker can't read files of lookups, by setting."""
        found = {}
        for name, path in files_of_lookups(set_values(resolved)):
            if (problem := await self._of_file(path)) is not None:
                found[name] = [str(ConfigError(name, config.get(name), problem))]
        return found

    async def _of_file(self, path: str) -> str | None:
        try:
            async with asyncio.timeout(LOOKING_S):
                return await asyncio.get_running_loop().run_in_executor(self._looking, self._rules.lookup_problem, path)
        except TimeoutError:
            return f"to open it took more than {LOOKING_S:g} s: look for a share that does not answer"

    async def _of_user_classes(
        self, judged: Mapping[str, ValidatedKey], resolved: Config, config: Config
    ) -> dict[str, list[str]]:
        """Errors of classes of the user's, by the setting that names them; a setting with an error already is left out."""
        texts = set_values(resolved)
        found = {}
        for name in SETTINGS:
            if name not in judged or judged[name].errors or not is_user_class(texts.get(name)):
                continue
            making = asyncio.get_running_loop().run_in_executor(self._making, class_problem, name, texts, CLASS_LIMITS)
            if (problem := await making) is not None:
                # A class may quote what a config provider gave for its settings.
                given = {value for key, value in texts.items() if value and value != config.get(key)}
                text = redact(problem, given | secrets_of(texts))
                found[name] = [str(ConfigError(name, config.get(name), text))]
        return found

    async def _of_statement(self, resolved: Config) -> dict[str, list[str]]:
        """What Spark says of the statement, or what is wrong with the function, by setting."""
        transform = transform_of(resolved)
        found = None if transform is None else await self._rules.statement_error(transform)
        return {} if found is None else {found[0]: [f"Invalid {found[0]}: {found[1]}"]}

    async def _resolved(self, config: Config) -> tuple[ConnectorDefinition, Config, Mapping[str, str]]:
        """The definition, the resolved config, and by setting why a reference in it stays as text. BadRequest."""
        try:
            found = await self._reads.resolve(set_values(config))
        except ConfigError as error:
            raise BadRequest(str(error)) from None
        resolved: Config = {**config, **found.values}
        class_name = resolved.get(CLASS)
        if class_name is None:
            raise BadRequest(f"Connector config {_shown(config)} contains no connector type")
        try:
            return connector_definition(class_name, config.get(CLASS)), resolved, found.unresolved
        except UnknownConnectorClass as error:
            raise BadRequest(str(error)) from None


def judged_config(
    definition: ConnectorDefinition,
    resolved: Config,
    config: Config,
    policy: OverridePolicy,
    exactly_once: Support = Support.DISABLED,
) -> dict[str, ValidatedKey]:
    """Every setting of a config with its errors, without classes of the user's; `config` as written.

    BadRequest for a malformed version of the connector.
    """
    refused = _of_another_version(definition, resolved, config)
    if refused is not None:
        return refused
    return _judged(definition, resolved, config, check_client_properties(resolved, config, policy), exactly_once)


def _judged(
    definition: ConnectorDefinition,
    resolved: Config,
    config: Config,
    of_clients: Mapping[str, ValidatedKey],
    exactly_once: Support,
    *,
    unresolved: Mapping[str, str] = NONE_LEFT,
) -> dict[str, ValidatedKey]:
    """Every setting in Connect's order: the framework's, those of aliases, the connector's, of clients, of converters."""
    judged = definition.validate(resolved, config, unresolved)
    check_exactly_once(judged, definition, resolved, exactly_once)
    plugged = check_aliases(judged, resolved, config)
    framework = {key.name: judged.pop(key.name) for key in (*CONNECTOR_KEYS, *SOURCE_KEYS)}
    return {
        **framework,
        **{name: result for name, result in judged.items() if result.key is None and name not in plugged},
        **plugged,
        **{name: result for name, result in judged.items() if result.key is not None},
        **of_clients,
        **check_converters({**framework, **judged}, resolved, config),
    }


def _of_another_version(
    definition: ConnectorDefinition, resolved: Config, config: Config
) -> dict[str, ValidatedKey] | None:
    """The errors of a config that asks for a connector version that does not exist; None if it asks for none such.

    Connect then validates only its own settings, and reports the error twice. BadRequest for a malformed version.
    """
    given = {resolved.get(VERSION) or ""} if resolved.get(VERSION) != config.get(VERSION) else set()
    try:
        problem = unavailable(definition.class_name, resolved.get(VERSION))
    except NoVersion as error:
        raise BadRequest(redact(str(error), given)) from None
    if problem is None:
        return None
    judged = CONNECTOR_KEYS.validate_all(resolved, config)
    for name in (CLASS, VERSION):
        judged[name].errors.append(redact(problem, given))
    judged[VERSION].key = replace(CONNECTOR_KEYS.keys[VERSION], default=KAFKA_VERSION, recommended=(KAFKA_VERSION,))
    return judged


def _check_override_types(judged: Mapping[str, ValidatedKey], resolved: Config) -> None:
    """Refuses the whole request if an override has a wrong type, as in Connect, which cannot read it then."""
    for name, result in judged.items():
        if name.startswith(PRODUCER_OVERRIDE) and result.key is not None and parse(resolved[name], result.key.type)[0]:
            raise BadRequest(result.errors[0])


def _shown(config: Config) -> str:
    """As Java prints a map, but without anything that looks like a secret: no table applies, as the class is unknown."""
    texts = {name: "null" if value is None else value for name, value in config.items()}
    shown = (f"{name}={HIDDEN if is_secret(name) else text}" for name, text in texts.items())
    return "{" + ", ".join(shown) + "}"


def _without_suffix(class_name: str) -> str:
    return class_name.removesuffix("Connector") if class_name != "Connector" else class_name
