"""The Java class names that settings may hold, and the interfaces that each implements.

A Java worker searches its class path; here is none. Each class below has a counterpart in this product, or it would change
nothing when whole batches are copied.
"""

from __future__ import annotations

from typing import Final

_CONVERTERS: Final = "org.apache.kafka.connect.converters."
_MIRROR: Final = "org.apache.kafka.connect.mirror."
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."

BYTE_ARRAY_CONVERTER: Final = _CONVERTERS + "ByteArrayConverter"
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
DEFAULT_POLICY: Final = _MIRROR + "DefaultReplicationPolicy"
IDENTITY_POLICY: Final = _MIRROR + "IdentityReplicationPolicy"
DEFAULT_TOPIC_FILTER: Final = _MIRROR + "DefaultTopicFilter"
DEFAULT_GROUP_FILTER: Final = _MIRROR + "DefaultGroupFilter"
DEFAULT_CONFIG_PROPERTY_FILTER: Final = _MIRROR + "DefaultConfigPropertyFilter"
FORWARDING_ADMIN: Final = "org.apache.kafka.clients.admin.ForwardingAdmin"
JMX_REPORTER: Final = "org.apache.kafka.common.metrics.JmxReporter"
JWT_RETRIEVER: Final = _OAUTH + "DefaultJwtRetriever"
JWT_VALIDATOR: Final = _OAUTH + "DefaultJwtValidator"

CONVERTER: Final = "Converter"
HEADER_CONVERTER: Final = "HeaderConverter"
_BOTH: Final = frozenset({CONVERTER, HEADER_CONVERTER})
TRANSFORMATION: Final = "Transformation"
PREDICATE: Final = "Predicate"
_TRANSFORMS: Final = "org.apache.kafka.connect.transforms."
# The former have one class for keys and one for values.
_OF_TWO_KINDS: Final = (
    *("Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField", "ReplaceField"),
    *("SetSchemaMetadata", "TimestampConverter"),
)
_OF_ONE_KIND: Final = ("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey")
_PREDICATES: Final = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")

KNOWN_CLASSES: Final[dict[str, frozenset[str]]] = {
    **{
        f"{_CONVERTERS}{kind}Converter": _BOTH
        for kind in ("ByteArray", "Boolean", "Double", "Float", "Integer", "Long", "Short")
    },
    "org.apache.kafka.connect.storage.StringConverter": _BOTH,
    JSON_CONVERTER: _BOTH,
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": frozenset({HEADER_CONVERTER}),
    **{
        f"{_TRANSFORMS}{name}${part}": frozenset({TRANSFORMATION})
        for name in _OF_TWO_KINDS
        for part in ("Key", "Value")
    },
    **{f"{_TRANSFORMS}{name}": frozenset({TRANSFORMATION}) for name in _OF_ONE_KIND},
    **{f"{_TRANSFORMS}predicates.{name}": frozenset({PREDICATE}) for name in _PREDICATES},
    **{
        f"{_MIRROR}Mirror{kind}Connector": frozenset({"SourceConnector"})
        for kind in ("Source", "Checkpoint", "Heartbeat")
    },
    DEFAULT_POLICY: frozenset({"ReplicationPolicy"}),
    IDENTITY_POLICY: frozenset({"ReplicationPolicy"}),
    DEFAULT_TOPIC_FILTER: frozenset({"TopicFilter"}),
    DEFAULT_GROUP_FILTER: frozenset({"GroupFilter"}),
    DEFAULT_CONFIG_PROPERTY_FILTER: frozenset({"ConfigPropertyFilter"}),
    FORWARDING_ADMIN: frozenset({"ForwardingAdmin"}),
    JMX_REPORTER: frozenset({"MetricsReporter"}),
    "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory": frozenset({"SslEngineFactory"}),
    JWT_RETRIEVER: frozenset({"JwtRetriever"}),
    **{
        f"{_OAUTH}{kind}JwtRetriever": frozenset({"JwtRetriever"})
        for kind in ("ClientCredentials", "JwtBearer", "File")
    },
    JWT_VALIDATOR: frozenset({"JwtValidator"}),
    _OAUTH + "ClientJwtValidator": frozenset({"JwtValidator"}),
    _OAUTH + "BrokerJwtValidator": frozenset({"JwtValidator"}),
    _OAUTH + "OAuthBearerLoginCallbackHandler": frozenset({"AuthenticateCallbackHandler"}),
    _OAUTH + "secured.OAuthBearerLoginCallbackHandler": frozenset({"AuthenticateCallbackHandler"}),
}

_CONVERTERS_KNOWN: Final = [name for name, interfaces in KNOWN_CLASSES.items() if HEADER_CONVERTER in interfaces]
# Simple names and, as for connectors, names without "Converter"; for SimpleHeaderConverter only the former.
CONVERTER_ALIASES: Final[dict[str, str]] = {name.rpartition(".")[2]: name for name in _CONVERTERS_KNOWN} | {
    name.rpartition(".")[2].removesuffix("Converter"): name
    for name in _CONVERTERS_KNOWN
    if CONVERTER in KNOWN_CLASSES[name]
}
# All short names that a CLASS setting may use.
CLASS_ALIASES: Final[dict[str, str]] = {
    **CONVERTER_ALIASES,
    **{name: _TRANSFORMS + name for name in _OF_ONE_KIND},
    **{name: f"{_TRANSFORMS}predicates.{name}" for name in _PREDICATES},
}
