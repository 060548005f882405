"""Specs for tasks on other machines, where the worker's files are not."""

from __future__ import annotations

from dataclasses import replace

from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.mirror.settings import Side, client_properties
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.kafka_io.client.inline_stores import with_inline_stores, without_store_settings


def carried(spec: TaskSpec) -> TaskSpec:
    """The spec with the content of each key and trust store that its clients use. Blocking; ConfigError."""
    return replace(
        spec,
        config=_config(spec),
        source=with_inline_stores(spec.source),
        target=with_inline_stores(spec.target),
        source_admin=with_inline_stores(spec.source_admin),
        target_admin=with_inline_stores(spec.target_admin),
        target_consumer=with_inline_stores(spec.target_consumer),
    )


def _config(spec: TaskSpec) -> dict[str, str]:
    config = without_store_settings(spec.config)
    settings = MirrorSource().settings(spec.config) if spec.connector_class == MirrorSource.class_name else None
    if settings is None or not settings.boolean("emit.offset-syncs.enabled"):
        return config
    # The one client that a task makes of its config: the producer of offset syncs.
    place = settings.text("offset-syncs.topic.location")
    side: Side = "target" if place == "target" else "source"
    before = client_properties(spec.config, side, "producer")
    inline = with_inline_stores(before)
    return config | {f"{side}.producer.{name}": value for name, value in inline.items() if before.get(name) != value}
