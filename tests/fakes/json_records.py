"""JSON records and settings of transformations, made up by a seed: for comparing with Kafka's own classes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

FIELDS: Final = ("a", "b", "c", "d", "grösse", "a.b", "x y", "t")
FORMATS: Final = (
    *("yyyy-MM-dd", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yyyyMMddHHmmss", "dd.MM.yy h:mm a", "EEE, d MMM yyyy HH:mm:ss Z"),
    *(
        "MMMM d, yyyy",
        "yyyy/M/d k:m:s",
        "HH:mm:ss",
        "yyyy-MM-dd HH:mm:ss X",
        "yyMMdd",
        "K a d-M-y",
        "''yy'T'''ss EEEE d",
    ),
)
TYPES: Final = ("int8", "int16", "int32", "int64", "float64", "boolean", "string", "float32")
# (name of Kafka's class without its package, its settings)
Configured = tuple[str, dict[str, str]]
_TEXTS: Final = (
    *(
        "",
        "x",
        "grün",
        "😀",
        "12",
        "-7",
        "300",
        "+5",
        " 3 ",
        "1.5",
        "1e3",
        ".5",
        "NaN",
        "Infinity",
        "-Infinity",
        "true",
        "TRUE",
    ),
    *("yes", "0x1p3", "1f", "9223372036854775807", "9223372036854775808", "١٢", 'a"b\\c', "\u0000\u001f", "2020-01-02"),
)


class JsonRecord(NamedTuple):
    """A record as JsonConverter gets it."""

    key: bytes | None
    value: bytes | None
    timestamp: int


def a_scalar(chance: random.Random) -> Any:
    """Any value but a list or an object."""
    bits = chance.choice((3, 8, 16, 31, 45, 62))
    number = chance.randrange(-(1 << bits), 1 << bits)
    broken = chance.choice((0.5, -1.5, 1e10, 2.0, 3e9, 1e18, 1e19, 1e-7, 123456.789, chance.uniform(-1e6, 1e6)))
    time = chance.choice((a_time(chance), 0, -1))
    texts = chance.choice(_TEXTS), chance.choice(_TEXTS), a_date(chance, chance.choice(FORMATS))
    return chance.choice((None, chance.random() < 0.5, number, number, broken, time, *texts))


def a_value(chance: random.Random, depth: int = 0) -> Any:
    """Any JSON value."""
    if depth < 3 and chance.random() < 0.3:
        if chance.random() < 0.3:
            return [a_value(chance, depth + 1) for _ in range(chance.randrange(3))]
        return an_object(chance, depth + 1)
    return a_scalar(chance)


def an_object(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """An object of some fields."""
    names = chance.sample(FIELDS, chance.randrange(len(FIELDS)))
    return {name: a_value(chance, depth) for name in names}


def a_text(chance: random.Random) -> bytes | None:
    """A key or value: mostly an object, now and then no JSON at all."""
    if chance.random() < 0.06:
        return chance.choice(
            (None, b"", b" ", b"null", b"tru", b'{"a":1', b"\xff", b"[1,]", b"NaN", b'{"a":NaN}', b"'x'", b"01x")
        )
    value = an_object(chance) if chance.random() < 0.85 else a_value(chance)
    indent = chance.choice((None, None, 1))
    return json.dumps(value, ensure_ascii=chance.random() < 0.3, indent=indent).encode()


def a_record(chance: random.Random) -> JsonRecord:
    """A record whose time is some time."""
    return JsonRecord(a_text(chance), a_text(chance), a_time(chance))


def a_time(chance: random.Random) -> int:
    """Milliseconds since 1970."""
    return (
        chance.randrange(0, 2_000_000_000_000)
        if chance.random() < 0.8
        else chance.randrange(-99_000_000_000_000, 10**14)
    )


def a_date(chance: random.Random, pattern: str) -> str:
    """A text near to what a format reads: right, or with something wrong in it."""
    at = datetime.fromtimestamp(chance.randrange(4_000_000_000), UTC)
    half, millis = at.strftime("%p"), f"{chance.randrange(1000):03}"
    zone = chance.choice(("Z", "+02:00", "-1130", "-11:30"))
    forms = {
        "yyyy-MM-dd": f"{at:%Y-%m-%d}",
        "yyyy-MM-dd'T'HH:mm:ss.SSSXXX": f"{at:%Y-%m-%dT%H:%M:%S}.{millis}{zone}",
        "yyyyMMddHHmmss": f"{at:%Y%m%d%H%M%S}",
        "dd.MM.yy h:mm a": f"{at:%d.%m.%y} {at.hour % 12 or 12}:{at.minute} {half}",
        "EEE, d MMM yyyy HH:mm:ss Z": f"{at:%a, %d %b %Y %H:%M:%S} {chance.choice(('+0000', '-0530', 'GMT', 'GMT+1:00'))}",
        "MMMM d, yyyy": f"{at:%B %d, %Y}",
        "yyyy/M/d k:m:s": f"{at.year}/{at.month + 7}/{at.day + 9} {at.hour}:{at.minute}:{at.second}",
        "HH:mm:ss": f"{at:%H:%M:%S}",
        "yyyy-MM-dd HH:mm:ss X": f"{at:%Y-%m-%d %H:%M:%S} {chance.choice(('Z', '+02', '-1130'))}",
        "yyMMdd": f"{at:%y%m%d}",
        "K a d-M-y": f"{at.hour % 12} {half.lower()} {at.day}-{at.month}-{at.year}",
        "''yy'T'''ss EEEE d": f"'{at:%y}T'{at:%S %A %d}",
    }
    text = forms[pattern]
    spoilt = chance.random()
    if spoilt < 0.1:
        place = chance.randrange(len(text) + 1)
        return text[:place] + chance.choice(" -0x") + text[place:]
    return text[:-1] if spoilt < 0.15 else text + " and so on" if spoilt < 0.2 else text


def _names(chance: random.Random, least: int = 1) -> str:
    return ",".join(chance.sample(FIELDS, chance.randrange(least, 4)))


def _mask(chance: random.Random) -> dict[str, str]:
    replacement = chance.choice((None, None, "***", "12", "1.9", "-7e2", "99999999999999999999", ".5e1"))
    return {"fields": _names(chance)} | ({} if replacement is None else {"replacement": replacement})


def _replace(chance: random.Random) -> dict[str, str]:
    settings = {}
    if chance.random() < 0.5:
        settings["exclude"] = _names(chance)
    if chance.random() < 0.4:
        settings["include"] = _names(chance)
    if chance.random() < 0.6:
        settings["renames"] = ",".join(
            f"{name}:{chance.choice((*FIELDS, 'new', 'other'))}" for name in chance.sample(FIELDS, 2)
        )
    return settings


def _insert(chance: random.Random) -> dict[str, str]:
    parts = ("topic.field", "partition.field", "timestamp.field")
    settings = {
        part: chance.choice(FIELDS) + chance.choice(("", "?", "!"))
        for part in chance.sample(parts, chance.randrange(1, 4))
    }
    return settings | ({"static.field": "s", "static.value": "fünf"} if chance.random() < 0.5 else {})


def _extract(chance: random.Random) -> dict[str, str]:
    if chance.random() < 0.5:
        return {"field": chance.choice(FIELDS)}
    path = chance.choice(("a", "a.b", "a.b.c", "`a.b`.a", "d.", "b.`x y`", "`a`.b", "``a`.b"))
    return {"field": path, "field.syntax.version": chance.choice(("V2", "v2"))}


def _cast(chance: random.Random) -> dict[str, str]:
    if chance.random() < 0.2:
        return {"spec": chance.choice(TYPES)}
    return {
        "spec": ",".join(f"{name}:{chance.choice(TYPES)}" for name in chance.sample(FIELDS, chance.randrange(1, 4)))
    }


def _timestamps(chance: random.Random) -> dict[str, str]:
    target = chance.choice(("string", "string", "unix", "unix", "Date", "Timestamp"))
    settings = {"field": chance.choice(("t", "t", "t", "a", "")), "target.type": target}
    settings["unix.precision"] = chance.choice(
        ("seconds", "milliseconds", "milliseconds", "microseconds", "nanoseconds")
    )
    if target == "string" or chance.random() < 0.8:
        settings["format"] = chance.choice(FORMATS)
    return settings


_SETTINGS: Final[dict[str, Callable[[random.Random], dict[str, str]]]] = {
    "Cast": _cast,
    "ExtractField": _extract,
    "Flatten": lambda chance: {"delimiter": chance.choice((".", "_", ""))} if chance.random() < 0.7 else {},
    "HoistField": lambda chance: {"field": chance.choice(FIELDS)},
    "InsertField": _insert,
    "MaskField": _mask,
    "ReplaceField": _replace,
    "TimestampConverter": _timestamps,
    "ValueToKey": lambda chance: {"fields": _names(chance)},
}
CLASSES: Final = tuple(_SETTINGS)


def a_transformation(chance: random.Random, name: str) -> Configured:
    """One with settings of its class, for keys or values."""
    part = "" if name == "ValueToKey" else chance.choice(("$Key", "$Value", "$Value"))
    return name + part, _SETTINGS[name](chance)


def a_chain(chance: random.Random) -> Sequence[Configured]:
    """Some transformations, one after the other.

    None gives two fields one name: which of them Kafka keeps depends on the kind of Java's map that the one before has made.
    """
    chain = [a_transformation(chance, chance.choice(CLASSES)) for _ in range(chance.randrange(2, 5))]
    for place, (name, settings) in enumerate(chain):
        if name.startswith("Flatten"):
            settings["delimiter"] = "_"
        elif "renames" in settings:
            former = (each.partition(":")[0] for each in settings["renames"].split(","))
            settings["renames"] = ",".join(f"{each}:new{place}{number}" for number, each in enumerate(former))
    return chain


def records_for(chance: random.Random, chain: Sequence[Configured], count: int) -> list[JsonRecord]:
    """Records of which some have what the chain looks for: texts of its format in the fields that it converts."""
    found = [a_record(chance) for _ in range(count)]
    for name, settings in chain:
        if "format" not in settings or name.startswith("Insert"):
            continue
        for place in range(0, count, 2):
            date: Any = a_date(chance, settings["format"]) if chance.random() < 0.7 else a_time(chance)
            field = settings["field"]
            text = json.dumps({field: date, "b": 1} if field else date).encode()
            found[place] = (
                found[place]._replace(key=text) if name.endswith("Key") else found[place]._replace(value=text)
            )
    return found
