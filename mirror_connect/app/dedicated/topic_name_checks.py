"""Checks that Kafka can have the topics of an mm2.properties file: aliases and separators are parts of their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mirror_connect.app.dedicated.findings import FindingCode, Mm2Finding
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.mm2_properties import Mm2Properties
from mirror_connect.app.dedicated.property_places import CLUSTERS
from mirror_connect.connectors.mirror.mirror_checkpoint import MirrorCheckpoint
from mirror_connect.connectors.replication_policy import is_topic_name, replication_policy
from mirror_connect.connectors.user_code.known_classes import DEFAULT_POLICY, IDENTITY_POLICY

_ALLOWED: Final = "names of topics have letters, digits, dots, _ and - only, at most 249 of them"
_CHOOSE: Final = "choose a separator of these, such as - or _"
_SEPARATOR: Final = "replication.policy.separator"
_OF_JAVA: Final = (DEFAULT_POLICY, IDENTITY_POLICY)


def check_topic_names(file: Mm2Properties, flows: Sequence[Flow]) -> Iterator[Mm2Finding]:
    """Errors of names that would make topics which no broker creates, and warnings of copies that nobody recognizes."""
    found: dict[tuple[str, str], Mm2Finding] = {}
    copied_on = {flow.source for flow in flows if flow.enabled}
    for flow in flows:
        of_copies = _of_copies(file, flow, also_source=flow.target in copied_on)
        for finding in (*_of_worker(file, flow), *of_copies):
            found.setdefault((finding.name, finding.remedy), finding)
    yield from found.values()


def _of_worker(file: Mm2Properties, flow: Flow) -> Iterator[Mm2Finding]:
    worker = file.resolve(flow.worker)
    for name in ("config.storage.topic", "offset.storage.topic", "status.storage.topic"):
        # Its absence is reported by itself.
        if not worker[name].strip() or is_topic_name(worker[name].strip()):
            continue
        origin = file.origin_in_worker(flow.target, name)
        if origin is not None:
            yield file.error(FindingCode.VALUE_INVALID, origin, _ALLOWED, "correct the name, or leave it out")
        else:
            yield _wrong_alias(file, flow.source, worker[name])


def _of_copies(file: Mm2Properties, flow: Flow, *, also_source: bool) -> Iterator[Mm2Finding]:
    """Of the copies and of the checkpoints. The names of a user's own policy are not known before it runs."""
    config = file.resolve(next(iter(flow.connectors.values())))
    if not flow.enabled or config.get("replication.policy.class", DEFAULT_POLICY).strip() not in _OF_JAVA:
        return
    policy = replication_policy(config)
    names = [policy.remote_topic(flow.source, "topic")]
    if MirrorCheckpoint().simple_name in flow.connectors:
        names.append(policy.checkpoints_topic(flow.source))
    wrong = next((name for name in names if not is_topic_name(name)), None)
    if wrong is None:
        taken_for = policy.source(names[0])
        if also_source and names[0] != "topic" and taken_for != flow.source:
            yield _unrecognized(file, flow, policy.separator, taken_for)
        return
    if is_topic_name(f"a{policy.separator}b"):
        yield _wrong_alias(file, flow.source, wrong)
        return
    origin = file.origin_in_connectors(flow.source, flow.target, _SEPARATOR) or ""
    yield file.error(FindingCode.VALUE_INVALID, origin, f"it would make the topic {wrong}, but {_ALLOWED}", _CHOOSE)


def _unrecognized(file: Mm2Properties, flow: Flow, separator: str, taken_for: str | None) -> Mm2Finding:
    """A flow back finds the origin of a topic by what is in front of the first separator; of none, by the first letter."""
    origin = file.origin_in_connectors(flow.source, flow.target, _SEPARATOR)
    where = (
        f"the separator “{separator}” is in the name of the cluster {flow.source}"
        if separator
        else "without a separator"
    )
    text = f"{where}, so its copies on {flow.target} are taken for those of “{taken_for}” and may be copied back"
    remedy = f"give {flow.source} another name, or choose another separator, before the first start"
    return file.warning(FindingCode.COPIES_UNRECOGNIZED, origin or CLUSTERS, text, remedy)


def _wrong_alias(file: Mm2Properties, alias: str, topic: str) -> Mm2Finding:
    text = f"the cluster “{alias}” would make the topic {topic}, but {_ALLOWED}"
    return file.error(FindingCode.CLUSTER_NAME_WRONG, CLUSTERS, text, f"give “{alias}” another name")
