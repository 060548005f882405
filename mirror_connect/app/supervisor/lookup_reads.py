"""How tasks and previews read a lookup: with which login, as which rows, and the line that names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mirror_connect.app.config.allowed_paths import NO_FILES, LookupPaths
from mirror_connect.app.lookups.loaded_lookup import LoadedLookup
from mirror_connect.connectors.mirror.lookups import LOOKUP, SOURCE, Format, Lookup, format_of, topic_of
from mirror_connect.connectors.mirror.settings import source_consumer, target_consumer

# A lookup, the properties of its cluster's consumer, the client's id, and the known stamp.
Read = Callable[[Lookup, Mapping[str, str], str, object], LoadedLookup | None]


def client_of(lookup: Lookup, resolved: Mapping[str, str]) -> Mapping[str, str]:
    """The properties of its cluster's consumer; none for a file."""
    if format_of(lookup.location) is not Format.TOPIC:
        return {}
    at_source = topic_of(lookup.location)[0] == SOURCE
    return source_consumer(resolved) if at_source else target_consumer(resolved)


def line_of(lookup: Lookup, problem: str) -> str:
    """What is wrong with it, as one line."""
    return f"Lookup {lookup.name} ({LOOKUP}{lookup.name}={lookup.location}): {problem}"


# Most workers need neither of these nor Arrow, which takes 40 MB.


def reader(paths: LookupPaths) -> Read:
    """What reads topics, and files that are in these paths. See read_lookup. It blocks."""

    def read(lookup: Lookup, client: Mapping[str, str], client_id: str, known: object) -> LoadedLookup | None:
        from mirror_connect.app.lookups.lookup_source import read_lookup  # noqa: PLC0415 — see above

        return read_lookup(lookup, client, client_id, known, paths=paths)

    return read


read_topics: Final = reader(NO_FILES)


def stream(lookup: Lookup, table: Any, keys: tuple[str, ...]) -> bytes:
    """The rows that a join by these columns can find, as a stream of Arrow's. BadLookupError. It blocks."""
    from mirror_connect.app.lookups.lookup_table import one_row_a_key, stream_of  # noqa: PLC0415 — see above

    # Of several rows with a key. In a topic the newest record is what counts.
    last_wins = format_of(lookup.location) is Format.TOPIC
    return stream_of(one_row_a_key(table, keys, last_wins=last_wins))
