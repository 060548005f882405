"""The login of a client, from `sasl.*` and its login module."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS
from mirror_connect.kafka_io.client.java_options import ALLOWED_URLS, KAFKA_OPTS
from mirror_connect.kafka_io.client.librdkafka_tokens import tokens_of
from mirror_connect.kafka_io.client.sasl import MECHANISMS, SaslSettings, login_module

PASSWORD = "hunter22"
IDP = "https://idp/token"
PASSWORD_MECHANISMS = [each for each in MECHANISMS if each != "OAUTHBEARER"]


def settings(mechanism: str | None = None, login: str | None = None, **more: str) -> Settings:
    given = {"sasl.mechanism": mechanism, "sasl.jaas.config": login}
    given |= {name.replace("_", "."): value for name, value in more.items()}
    return CLIENT_KEYS["admin"].parse_all({name: value for name, value in given.items() if value is not None})


def module(name: str, options: str = f'username="u" password="{PASSWORD}"') -> str:
    return f"org.apache.kafka.common.security.x.{name}LoginModule required {options};"


def refusal(given: Settings) -> str:
    with pytest.raises(ConfigError) as caught:
        SaslSettings.of(given, None)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["Plain", "Scram"])
@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
def test_either_password_module_serves_each_password_mechanism(mechanism: str, name: str) -> None:
    sasl = SaslSettings.of(settings(mechanism, module(name)), None)
    assert (sasl.mechanism, sasl.username, sasl.password, sasl.oauth) == (mechanism, "u", PASSWORD, None)
    assert sasl.librdkafka() == {"sasl.mechanism": mechanism, "sasl.username": "u", "sasl.password": PASSWORD}


def test_a_token_login_has_no_password_and_gives_librdkafka_a_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KAFKA_OPTS, f"-D{ALLOWED_URLS}={IDP}")
    login = module("OAuthBearer", f'clientId="me" clientSecret="{PASSWORD}"')
    sasl = SaslSettings.of(settings("OAUTHBEARER", login, sasl_oauthbearer_token_endpoint_url=IDP), None)
    assert sasl.oauth is not None
    assert (sasl.oauth.url, sasl.oauth.client_id, sasl.username, sasl.password) == (IDP, "me", "", "")
    config = sasl.librdkafka()
    assert (sorted(config), tokens_of(config) is None) == (["oauth_cb", "sasl.mechanism"], False)
    assert PASSWORD not in repr(sasl)


def test_a_password_is_in_no_repr() -> None:
    assert PASSWORD not in repr(SaslSettings.of(settings("PLAIN", module("Plain")), None))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param(settings(), "Invalid sasl.mechanism: it is not set, and Kafka's default GSSAPI", id="not_set"),
        pytest.param(settings("GSSAPI"), "Invalid value GSSAPI for configuration sasl.mechanism", id="kerberos"),
        pytest.param(
            settings("PLAIN"), "it has to be set for sasl.mechanism PLAIN (… required username=", id="no_login"
        ),
        pytest.param(settings("OAUTHBEARER"), "(OAuthBearerLoginModule required ;)", id="no_login_for_tokens"),
        pytest.param(
            settings("PLAIN", module("OAuthBearer")),
            "OAuthBearerLoginModule doesn't support PLAIN; use PlainLoginModule or ScramLoginModule",
            id="a_module_for_tokens",
        ),
        pytest.param(
            settings("OAUTHBEARER", module("Plain")), "use OAuthBearerLoginModule", id="a_module_for_passwords"
        ),
        pytest.param(
            settings("SCRAM-SHA-256", module("Scram", f"tokenauth=true username=u password={PASSWORD}")),
            "tokenauth (delegation tokens) isn't supported",
            id="delegation_token",
        ),
        pytest.param(
            settings("PLAIN", module("Plain", f"username={PASSWORD}")),
            "PlainLoginModule needs the option password",
            id="no_password",
        ),
        pytest.param(
            settings("PLAIN", module("Plain", "")),
            "PlainLoginModule needs the options username and password",
            id="no_options",
        ),
    ],
)
def test_a_login_that_is_not_possible_is_refused_with_the_setting_and_the_reason(given: Settings, reason: str) -> None:
    assert reason in refusal(given)


def test_the_login_module_is_read_where_it_is_set() -> None:
    assert login_module(settings("PLAIN")) is None
    found = login_module(settings("PLAIN", module("Plain")))
    assert found is not None
    assert (found.simple_name, found.options) == ("PlainLoginModule", {"username": "u", "password": PASSWORD})


def test_a_login_module_that_cannot_be_parsed_is_not_quoted() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid sasl\.jaas\.config: a quotation mark isn't closed") as caught:
        login_module(settings("PLAIN", module("Plain", f'password="{PASSWORD}')))
    assert PASSWORD not in str(caught.value)
