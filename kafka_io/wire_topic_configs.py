"""The request DescribeConfigs for one config of one topic, as a task asks it over the connections it has anyway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from mirror_connect.kafka_io.wire_codec import Reader, Request, Writer

_TOPIC = 2


class DescribedConfig(NamedTuple):
    """`value`: as it is in force, the brokers' default too; None where there is none, or no right to see it (`error`)."""

    error: int
    value: str | None


@dataclass(frozen=True, slots=True)
class DescribeTopicConfig(Request[DescribedConfig]):
    """The value in force of the config `name` of a topic; any broker answers."""

    api_key: ClassVar[int] = 32
    versions: ClassVar[tuple[int, int]] = (1, 4)
    flexible_from: ClassVar[int] = 4

    topic: str
    name: str

    def encode(self, version: int, writer: Writer) -> None:
        """As DescribeConfigs v1 to v4."""

        def resource(topic: str) -> None:
            writer.int8(_TOPIC)
            writer.string(topic)
            writer.array([self.name], writer.string)
            writer.tags()

        writer.array([self.topic], resource)
        writer.int8(0)
        if version >= 3:
            writer.int8(0)
        writer.tags()

    def decode(self, version: int, reader: Reader) -> DescribedConfig:
        """As DescribeConfigs v1 to v4."""
        reader.int32()
        found: list[DescribedConfig] = []

        def config() -> tuple[str, str | None]:
            name, value = reader.string(), reader.nullable_string()
            reader.boolean()
            reader.int8()
            reader.boolean()
            reader.array(synonym)
            if version >= 3:
                reader.int8()
                reader.nullable_string()
            reader.tags()
            return name, value

        def synonym() -> None:
            reader.string()
            reader.nullable_string()
            reader.int8()
            reader.tags()

        def resource() -> None:
            error = reader.int16()
            reader.nullable_string()
            reader.int8()
            reader.string()
            values = dict(reader.array(config))
            reader.tags()
            found.append(DescribedConfig(error, values.get(self.name)))

        reader.array(resource)
        return found[0] if found else DescribedConfig(0, None)
