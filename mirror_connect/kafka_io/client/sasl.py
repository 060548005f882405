"""Reads Java's SASL settings (`sasl.*`): PLAIN, SCRAM and OAUTHBEARER, for librdkafka and our own connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.jaas import JaasError, LoginModule, parse_login
from mirror_connect.kafka_io.client.librdkafka_tokens import LibrdkafkaTokens
from mirror_connect.kafka_io.client.oauth import OAuthSettings
from mirror_connect.kafka_io.client.tls import TlsSettings

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_JAAS: Final = "sasl.jaas.config"
# Java's PLAIN and SCRAM clients accept name and password from either module.
_PASSWORD_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")
_OAUTH_MODULE: Final = "OAuthBearerLoginModule"


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How a client logs in: with a name and a password, or with tokens."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    oauth: OAuthSettings | None = None

    @classmethod
    def of(cls, settings: Settings, tls: TlsSettings | None) -> SaslSettings:
        """From parsed client settings. ConfigError names the setting; never a secret.

        `tls`: for a token endpoint, from the login module's own `ssl.*` options.
        """
        mechanism = settings.text("sasl.mechanism")
        if mechanism not in MECHANISMS:
            unset = f"it is not set, and Kafka's default {mechanism} is not supported; "
            prefix = "" if "sasl.mechanism" in settings.originals else unset
            value = None if prefix else mechanism
            raise ConfigError("sasl.mechanism", value, f"{prefix}it has to be one of {', '.join(MECHANISMS)}")
        module = login_module(settings)
        if module is None:
            example = (
                "OAuthBearerLoginModule required ;"
                if mechanism == "OAUTHBEARER"
                else "… required username=… password=…;"
            )
            raise ConfigError(_JAAS, None, f"it has to be set for sasl.mechanism {mechanism} ({example})")
        wanted = (_OAUTH_MODULE,) if mechanism == "OAUTHBEARER" else _PASSWORD_MODULES
        if module.simple_name not in wanted:
            raise ConfigError(
                _JAAS, None, f"{module.class_name} doesn't support {mechanism}; use {' or '.join(wanted)}"
            )
        if mechanism == "OAUTHBEARER":
            return cls(mechanism, oauth=OAuthSettings.of(settings, module, tls))
        if module.options.get("tokenauth", "").lower() == "true":
            raise ConfigError(_JAAS, None, "tokenauth (delegation tokens) isn't supported")
        missing = [name for name in ("username", "password") if name not in module.options]
        if missing:
            raise ConfigError(
                _JAAS, None, f"{module.simple_name} needs the option{'s'[: len(missing) - 1]} {' and '.join(missing)}"
            )
        return cls(mechanism, module.options["username"], module.options["password"])

    def librdkafka(self) -> dict[str, Any]:
        """The same settings for librdkafka."""
        if self.oauth is not None:
            return {"sasl.mechanism": self.mechanism, "oauth_cb": LibrdkafkaTokens(self.oauth)}
        return {"sasl.mechanism": self.mechanism, "sasl.username": self.username, "sasl.password": self.password}


def login_module(settings: Settings) -> LoginModule | None:
    """The module of sasl.jaas.config, None without that setting. ConfigError if it can't be parsed."""
    text = settings.secret(_JAAS)
    if text is None:
        return None
    try:
        return parse_login(text.reveal())
    except JaasError as error:
        raise ConfigError(_JAAS, None, str(error)) from None
