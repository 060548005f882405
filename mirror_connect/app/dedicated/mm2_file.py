"""Reads an mm2.properties file: its flows for the dedicated mode, and all findings for `mirror-connect check`.

    read_mm2_config(path, clusters) -> Mm2Config              # RefusedFile if there are errors
    findings(path, clusters) -> list[Mm2Finding]                 # errors and warnings, in the file's order

A `Mm2Finding` (findings.py) has severity, code, file, line, name, value, text and remedy; its line is `shown`.
Nothing here connects to a cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mirror_connect.app.config.config_providers import MEND, Resolver
from mirror_connect.app.config.properties import UnreadableFile, read_located_properties
from mirror_connect.app.dedicated.cluster_checks import (
    check_brokers,
    check_circles,
    check_clusters,
    check_flow_names,
    check_flows,
    check_same_brokers,
)
from mirror_connect.app.dedicated.findings import FindingCode, Mm2Finding, RefusedFile, Severity
from mirror_connect.app.dedicated.flows import Mm2Config
from mirror_connect.app.dedicated.mm2_properties import Mm2Properties
from mirror_connect.app.dedicated.name_checks import check_names, check_repeated
from mirror_connect.app.dedicated.property_places import INTERNAL_REST
from mirror_connect.app.dedicated.topic_name_checks import check_topic_names
from mirror_connect.app.dedicated.value_checks import (
    check_checkpoints,
    check_comments,
    check_references,
    check_storage,
    check_values,
)
from mirror_connect.connectors.config.values import BOOLEAN, parse
from mirror_connect.connectors.errors import ConfigError


def read_mm2_config(
    path: str | Path, clusters: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> Mm2Config:
    """The flows of a file. `clusters`: `--clusters`, the targets of this process. RefusedFile has a line for each error.

    Warnings are in `Mm2Config.warnings`. `environment`: for config providers, of this process unless given.
    """
    return config_of(read_mm2_file(path, clusters, environment))


def config_of(file: Mm2Properties) -> Mm2Config:
    """The same of a file that has been read."""
    found = list(_findings(file))
    errors = [finding for finding in found if finding.severity is Severity.ERROR]
    if errors:
        raise RefusedFile(_in_order(errors))
    return Mm2Config(
        path=file.path,
        clusters=file.clusters,
        flows=tuple(file.flows()),
        process={**file.process(), **file.listener_tls()},
        internal_rest=parse(file.resolved.get(INTERNAL_REST), BOOLEAN)[1] is True,
        warnings=tuple(_in_order(found)),
    )


def findings(
    path: str | Path, clusters: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> list[Mm2Finding]:
    """All errors and warnings of a file, in the file's order; what concerns no line comes first."""
    try:
        return _in_order(_findings(read_mm2_file(path, clusters, environment)))
    except RefusedFile as refused:
        return list(refused.findings)


def findings_in(file: Mm2Properties) -> list[Mm2Finding]:
    """The same of a file that has been read."""
    return _in_order(_findings(file))


def read_mm2_file(
    path: str | Path, clusters: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> Mm2Properties:
    """RefusedFile if the file, or one that its config providers read, is unreadable or empty."""

    def refused(code: FindingCode, text: str, remedy: str, name: str = "", line: int | None = None) -> RefusedFile:
        return RefusedFile([Mm2Finding(Severity.ERROR, code, str(path), line, name, None, text, remedy)])

    try:
        located = read_located_properties(path)
    except UnreadableFile as error:
        # Of a file that can be read, the reason says what is wrong in it.
        readable = os.path.isfile(path) and os.access(path, os.R_OK)
        remedy = "" if readable else "give a file that this user may read"
        raise refused(FindingCode.FILE_UNREADABLE, error.problem, remedy) from None
    if not located.values:
        remedy = "write clusters = A, B, their bootstrap.servers, and A->B.enabled = true"
        raise refused(FindingCode.FILE_EMPTY, "there are no properties in the file", remedy)
    try:
        resolver, unreadable = Resolver.of(located.values, environment).without_unreadable(located.values)
        # What stays as text is a finding, with its line.
        resolved, _ = resolver.preview_with_notices(located.values)
    except ConfigError as error:
        name = error.name if error.name in located.values else ""
        raise refused(
            FindingCode.REFERENCE_UNREADABLE, str(error), "correct the config provider", name, located.lines.get(name)
        ) from None
    return Mm2Properties(str(path), located, resolver, resolved, tuple(clusters or ()), unreadable)


def _findings(file: Mm2Properties) -> Iterator[Mm2Finding]:
    for error in file.unreadable:
        for name in error.names:
            unreadable = file.error(FindingCode.REFERENCE_UNREADABLE, name, error.reason, MEND)
            yield replace(unreadable, value=None)
    yield from (finding for finding in _of_values(file) if not _rests_on_unread(finding, file))


def _rests_on_unread(finding: Mm2Finding, file: Mm2Properties) -> bool:
    """Whether it is told of a text that stands for an unknown value."""
    if finding.name in file.unread:
        return True
    # Which property a login lacks depends on these.
    logins = any(name.endswith(("sasl.mechanism", "security.protocol")) for name in file.unread)
    return logins and finding.code is FindingCode.PROPERTY_MISSING


def _of_values(file: Mm2Properties) -> Iterator[Mm2Finding]:
    of_clusters = list(check_clusters(file))
    yield from of_clusters
    yield from check_repeated(file)
    if any(finding.severity is Severity.ERROR for finding in of_clusters):
        return  # without the aliases, nothing else can be told
    yield from check_flow_names(file)
    flows = file.flows()
    yield from check_flows(file, flows)
    yield from check_brokers(file, flows)
    yield from check_same_brokers(file, flows)
    yield from check_topic_names(file, flows)
    wrong = list(check_values(file, flows))
    yield from wrong
    if not any(finding.code is FindingCode.EXPRESSION_INVALID for finding in wrong):
        yield from check_circles(file, flows)
    yield from check_comments(file, frozenset(finding.name for finding in wrong))
    yield from check_references(file)
    yield from check_storage(file, flows)
    yield from check_checkpoints(file, flows)
    yield from check_names(file, flows)


def _in_order(found: Sequence[Mm2Finding] | Iterator[Mm2Finding]) -> list[Mm2Finding]:
    return sorted(found, key=lambda finding: finding.line or 0)
