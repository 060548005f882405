"""Judges an mm2.properties file: what the dedicated mode finds in it, and its flows' workers and connectors.

Each property of the file becomes properties of workers and connectors. It gets the gravest of their judgements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from mirror_connect.app.config.config_providers import Resolver
from mirror_connect.app.config.properties import LocatedProperties, read_located_properties
from mirror_connect.app.dedicated.findings import FindingCode, Severity
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.mm2_file import findings_in
from mirror_connect.app.dedicated.mm2_properties import Mm2Properties
from mirror_connect.app.dedicated.process_configs import process_properties
from mirror_connect.app.dedicated.property_places import OF_PROCESS
from mirror_connect.check.connector_judge import judge_connector
from mirror_connect.check.document import UnknownDocument
from mirror_connect.check.judgement import Judgement, Verdict, sentence, without_secrets
from mirror_connect.check.links import not_comparable
from mirror_connect.check.references import references
from mirror_connect.check.report import VerifyLink
from mirror_connect.check.worker_judge import judge_process_property, judge_worker, support_of
from mirror_connect.connectors import MirrorSource
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.settings import Side, client_properties

# Setting of a source connector → option of verify.
_OPTIONS: Final = {
    "topics": "--topics",
    "topics.exclude": "--topics-exclude",
    "replication.policy.class": "--policy",
    "replication.policy.separator": "--separator",
}
# Without the clusters' names there is nothing else to judge.
_WITHOUT_FLOWS: Final = (FindingCode.CLUSTERS_MISSING, FindingCode.CLUSTER_NAME_WRONG)
_SOURCE: Final = MirrorSource().simple_name


class Mm2File:
    """One file. References to config providers that can't be resolved here stay as they are.

    `located`: the file as read, which is read here if nobody has yet. UnreadableFile.
    """

    def __init__(self, path: str | Path, located: LocatedProperties | None = None) -> None:
        self.path = str(path)
        self.located: LocatedProperties = located or read_located_properties(path, what="the file")
        values = self.located.values
        referred = references(values)
        self.unread = referred.unread
        resolver = referred.resolver
        self._file = Mm2Properties(
            self.path, self.located, resolver, resolver.resolve(values), unreadable=referred.failed
        )
        self._found = findings_in(self._file)

    def judge(self) -> list[Judgement]:
        """A judgement for each property, in the file's order, then what concerns no property."""
        values = self.located.values
        found: dict[str, Judgement] = {}
        for judged in (*self._own_findings(), *self._of_flows()):
            known = found.get(judged.name)
            if known is None or _gravity(judged) < _gravity(known):
                found[judged.name] = judged
        for name in self.unread:
            if name not in found or found[name].verdict is not Verdict.DIFFERENT:
                found[name] = Judgement(name, Verdict.NOT_JUDGED, *self.unread[name])
        of_process = self._file.process()
        for name, value in of_process.items():
            found.setdefault(name, judge_process_property(name, value))
        listed = [found.get(name) or Judgement(name, Verdict.SAME) for name in values]
        return listed + [judged for name, judged in found.items() if name not in values]

    def links(self) -> list[VerifyLink]:
        """The enabled flows, which MirrorMaker runs today. None if the file has mistakes that leave no flows."""
        return [self._link(flow) for flow in self._flows() if flow.enabled]

    def client(self, alias: str) -> dict[str, str] | None:
        """The client properties of a cluster, resolved; None if no flow has it.

        UnknownDocument names what can't be resolved here: a client can do nothing with a reference.
        """
        flow = next((each for each in self._flows() if alias in (each.source, each.target)), None)
        if flow is None:
            return None
        side: Side = "source" if flow.source == alias else "target"
        client = client_properties(flow.connectors[_SOURCE], side, "consumer")
        try:
            resolved, notices = Resolver.of(self.located.values).preview_with_notices(client)
        except ConfigError as error:
            raise UnknownDocument(self.path, f"the client properties of {alias} can't be resolved: {error}") from None
        if notices:
            raise UnknownDocument(
                self.path, f"the client properties of {alias} can't be resolved: {'; '.join(notices)}"
            )
        return resolved

    def _flows(self) -> list[Flow]:
        return self._file.flows() if self._file.clusters else []

    def _own_findings(self) -> Iterator[Judgement]:
        for finding in self._found:
            # A property that is missing has its name in the judgement of the flow.
            missing = finding.code is FindingCode.PROPERTY_MISSING
            nameless = not finding.name and finding.code is FindingCode.VALUE_INVALID
            if missing or nameless or finding.name in self.unread:
                continue
            verdict = Verdict.REFUSED if finding.severity is Severity.ERROR else Verdict.DIFFERENT
            text = without_secrets(finding.text, self.located.values)
            yield Judgement(finding.name, verdict, sentence(text), sentence(finding.remedy), unread=False)

    def _of_flows(self) -> Iterator[Judgement]:
        if any(finding.code in _WITHOUT_FLOWS for finding in self._found):
            return
        idle: dict[str, Judgement] = {}
        used: set[str] = set()
        for flow in self._flows():
            for connector, whole in flow.connectors.items():
                # The worker is on the target cluster, and its producer writes: its judgement of these counts.
                config = {name: value for name, value in whole.items() if not name.startswith("target.producer.")}
                for judged in judge_connector(config, support=support_of(flow.worker), flow=flow.name):
                    origin = self._file.origin_in_connectors(flow.source, flow.target, judged.name)
                    if origin is not None and connector == _SOURCE and flow.enabled:
                        if judged.idle:
                            idle.setdefault(origin, replace(judged, name=origin))
                        else:
                            used.add(origin)
                    if judged.verdict is Verdict.NOT_JUDGED:
                        continue  # the file's own references have been tried, see references.py
                    yield from self._renamed(judged, origin, _place_of_connectors(flow, judged.name))
            for judged in judge_worker(flow.worker):
                origin = self._file.origin_in_worker(flow.target, judged.name)
                yield from self._renamed(judged, origin, f"{flow.target}.{judged.name}")
        # A property of the top level may have no effect in one flow, and be meant for another one.
        yield from (judged for name, judged in idle.items() if name not in used | self.unread.keys())
        yield from self._of_process()

    def _of_process(self) -> Iterator[Judgement]:
        """What the worker's judgement of the process's properties adds: listeners and their key stores."""
        own = {**self._file.process(), **self._file.listener_tls()}
        flows = self._flows()
        # Other errors are told with the flow whose worker has them.
        for judged in judge_worker(process_properties(own, flows[0])) if flows else ():
            if judged.name in own or judged.name.startswith(OF_PROCESS):
                yield from self._renamed(judged, judged.name if judged.name in own else None, judged.name)

    def _renamed(self, judged: Judgement, origin: str | None, missing: str) -> Iterator[Judgement]:
        """By the property of the file. `missing`: how it would be written there."""
        # What is unread by a worker may be read by a connector; the findings tell what nobody reads.
        told = (Verdict.DIFFERENT, Verdict.NOT_JUDGED)
        counts = judged.verdict is Verdict.REFUSED or (origin is not None and judged.verdict in told)
        if counts and not judged.unread and origin not in self.unread:
            yield Judgement(origin or missing, judged.verdict, judged.text, judged.instead)

    def _link(self, flow: Flow) -> VerifyLink:
        config: Mapping[str, str] = flow.connectors[_SOURCE]
        if reason := not_comparable(config):
            return VerifyLink(flow.name, (), impossible=reason)
        options = ["--source-alias", flow.source, "--target-alias", flow.target]
        for setting, option in _OPTIONS.items():
            if config.get(setting):
                options += [option, config[setting]]
        options += ["--offsets-topic", flow.worker["offset.storage.topic"]]
        clients = {"--source": flow.source, "--target": flow.target}
        return VerifyLink(flow.name, tuple(options), self.path, clients, client_of=self.client)


def _place_of_connectors(flow: Flow, name: str) -> str:
    for side, alias in (("source", flow.source), ("target", flow.target)):
        if name.startswith(f"{side}.cluster."):
            return f"{alias}.{name.removeprefix(f'{side}.cluster.')}"
    return f"{flow.name}.{name}"


def _gravity(judged: Judgement) -> tuple[int, bool]:
    return list(Verdict).index(judged.verdict), not judged.instead
