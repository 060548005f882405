"""Java client properties, as both kinds of clients get them."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.addresses import bootstrap_servers
from mirror_connect.kafka_io.client.client_keys import Kind
from mirror_connect.kafka_io.client.client_settings import connection_settings, librdkafka_config
from mirror_connect.kafka_io.client.java_options import for_tasks, system_property

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
URL = "sasl.oauthbearer.token.endpoint.url"


ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
IDP = "https://idp/token"


@pytest.fixture(autouse=True)
def allowed_endpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g '-D{ALLOWED}=https://other/, {IDP},http://i/,http://127.0.0.1:8/'")


def properties(**given: str) -> dict[str, str]:
    return {"bootstrap.servers": "a:1"} | {name.replace("_", "."): value for name, value in given.items()}


def login(mechanism: str, module: str, options: str = 'username="u" password="hunter22"') -> dict[str, str]:
    return properties(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_jaas_config=f"{module} required {options};"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1, b:2,a:1", (("a", 1), ("b", 2))),
        ("[::1]:9092", (("::1", 9092),)),
        ("PLAINTEXT://a.example:1", (("a.example", 1),)),
    ],
)
def test_bootstrap_servers_are_hosts_and_ports(text: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert bootstrap_servers(text) == expected


@pytest.mark.parametrize("text", ["a", "a:x", ":1", "a:70000", "a:1 b:2"])
def test_a_wrong_address_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=f"^Invalid value {text} for configuration bootstrap.servers"):
        bootstrap_servers(text)


def test_no_address_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"No bootstrap urls given in bootstrap\.servers"):
        connection_settings({}, "c")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_name_and_a_password_reach_both_clients(mechanism: str) -> None:
    given = login(mechanism, PLAIN if mechanism == "PLAIN" else SCRAM)
    wire, native = connection_settings(given, "c"), librdkafka_config(given, "admin")
    assert (wire.sasl_mechanism, wire.username, wire.password) == (mechanism, "u", "hunter22")
    assert [native[f"sasl.{name}"] for name in ("mechanism", "username", "password")] == [mechanism, "u", "hunter22"]


def test_client_credentials_reach_both_clients() -> None:
    given = login("OAUTHBEARER", OAUTH, 'clientId="me" clientSecret="hunter22" scope="s"') | {URL: "https://idp/token"}
    native = librdkafka_config(given, "admin")
    assert repr(native["oauth_cb"]) == "LibrdkafkaTokens(https://idp/token, me)"
    assert repr(connection_settings(given, "c").token_provider) == "ClientCredentialsTokens(https://idp/token, me)"


def test_librdkafka_gets_no_setting_to_ask_for_tokens_itself() -> None:
    given = login("OAUTHBEARER", OAUTH, 'clientId="me" clientSecret="hunter22" scope="s"') | {URL: "https://idp/token"}
    native = librdkafka_config(given, "admin")
    assert [name for name in native if "oauth" in name or name.startswith("sasl.")] == ["sasl.mechanism", "oauth_cb"]
    assert "hunter22" not in repr(native)


def test_client_credentials_of_the_settings_go_before_those_of_the_login() -> None:
    given = login("OAUTHBEARER", OAUTH, 'clientId="old" clientSecret="old"') | {URL: "https://idp/token"}
    given |= {f"sasl.oauthbearer.client.credentials.client.{name}": "new" for name in ("id", "secret")}
    wire, native = connection_settings(given, "c").token_provider, librdkafka_config(given, "admin")["oauth_cb"]
    assert wire is not None
    for settings in (wire._settings, native._settings):
        assert (settings.client_id, settings.client_secret) == ("new", "new")


CREDENTIALS = login("OAUTHBEARER", OAUTH, 'clientId="me" clientSecret="hunter22"')


@pytest.mark.parametrize("url", [IDP, "http://127.0.0.1:8/", "https://other/"])
def test_token_endpoints_that_the_worker_is_started_with_are_allowed(url: str) -> None:
    assert connection_settings(CREDENTIALS | {URL: url}, "c").token_provider is not None


@pytest.mark.parametrize(
    "url",
    [
        "https://idp/token/", "https://idp/", "http://idp/token", "https://idp:443/token", "https://169.254.169.254/latest",
        "https://idp/token?x=1", "https://u:hunter22@idp/token", "https://idp/token,https://other/", "https://other/, ",
    ],
)  # fmt: skip
def test_no_other_token_endpoint_is_asked(url: str) -> None:
    for made in (
        lambda: connection_settings(CREDENTIALS | {URL: url}, "c"),
        lambda: librdkafka_config(CREDENTIALS | {URL: url}, "admin"),
    ):
        with pytest.raises(
            ConfigError, match=rf"for configuration {URL}: the worker isn't allowed .*-D{ALLOWED}="
        ) as caught:
            made()
        assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize(
    "options", [None, "", "-Xmx1g", f"-D{ALLOWED}=", f"-D{ALLOWED}={IDP} -D{ALLOWED}=https://other/"]
)
def test_without_the_option_no_token_endpoint_is_asked(monkeypatch: pytest.MonkeyPatch, options: str | None) -> None:
    monkeypatch.delenv("KAFKA_OPTS")
    if options is not None:
        monkeypatch.setenv("KAFKA_OPTS", options)
    with pytest.raises(ConfigError, match="the worker isn't allowed to ask it"):
        connection_settings(CREDENTIALS | {URL: IDP}, "c")


def test_a_secret_goes_to_another_machine_by_https_only() -> None:
    with pytest.raises(ConfigError, match="it has to be an https URL"):
        connection_settings(CREDENTIALS | {URL: "http://i/"}, "c")


def test_options_that_cannot_be_read_are_reported_without_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-Dpassword='hunter22")
    with pytest.raises(ConfigError, match=r"^Invalid KAFKA_OPTS: it can't be read: No closing quotation$"):
        connection_settings(CREDENTIALS | {URL: IDP}, "c")
    assert for_tasks({"KAFKA_OPTS": "-Dpassword='hunter22"}) == {}


def test_tasks_get_the_allowed_endpoints_and_no_other_option() -> None:
    given = {"KAFKA_OPTS": f"-Dpassword=hunter22 '-D{ALLOWED}=https://a/?x=1, https://b/'"}
    handed = for_tasks(given)
    assert system_property(ALLOWED, handed) == "https://a/?x=1, https://b/"
    assert "hunter22" not in repr(handed)
    assert for_tasks({}) == {}


SASL = properties(security_protocol="SASL_PLAINTEXT")


def test_a_mechanism_that_is_not_set_is_not_called_a_wrong_value() -> None:
    with pytest.raises(ConfigError) as caught:
        connection_settings(SASL, "c")
    assert str(caught.value).startswith(
        "Invalid sasl.mechanism: it is not set, and Kafka's default GSSAPI is not supported; it has to be one of PLAIN, "
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param(SASL, "sasl.mechanism", id="kerberos_is_the_default_and_not_supported"),
        pytest.param(SASL | {"sasl.mechanism": "PLAIN"}, "sasl.jaas.config", id="no_login"),
        pytest.param(login("PLAIN", OAUTH), "sasl.jaas.config", id="a_module_of_another_mechanism"),
        pytest.param(login("PLAIN", PLAIN, 'username="hunter22"'), "sasl.jaas.config", id="no_password"),
        pytest.param(login("PLAIN", PLAIN, 'password="hunter22'), "sasl.jaas.config", id="malformed"),
        pytest.param(login("SCRAM-SHA-256", SCRAM, "tokenauth=true"), "sasl.jaas.config", id="delegation_token"),
        pytest.param(login("OAUTHBEARER", OAUTH, "clientId=a"), URL, id="no_token_endpoint"),
        pytest.param(login("OAUTHBEARER", OAUTH, "clientId=a") | {URL: "file:///t"}, URL, id="a_file_as_endpoint"),
        pytest.param(login("OAUTHBEARER", OAUTH, "clientId=a") | {URL: IDP}, "client.secret", id="no_client_secret"),
        pytest.param(
            login("OAUTHBEARER", OAUTH, "clientId=a clientSecret=s extension_a_b=c") | {URL: IDP},
            "extension_a_b",
            id="a_name_that_no_extension_has",
        ),
        pytest.param(
            login("OAUTHBEARER", OAUTH, "clientId=a clientSecret=s extension_auth=hunter22") | {URL: IDP},
            "extension_auth",
            id="an_extension_in_the_tokens_place",
        ),
        pytest.param(
            login("OAUTHBEARER", OAUTH, 'clientId=a clientSecret=s extension_a="hunter22\x01"') | {URL: IDP},
            "extension_a",
            id="an_extension_that_ends_the_message",
        ),
        pytest.param(properties(security_protocol="TLS"), "security.protocol", id="protocol"),
        pytest.param(properties(request_timeout_ms="soon"), "request.timeout.ms", id="no_number"),
        pytest.param(properties(request_timeout_ms="-1"), "request.timeout.ms", id="a_negative_number"),
        pytest.param(
            properties(sasl_login_callback_handler_class="org.example.Iam"),
            "sasl.login.callback.handler.class",
            id="own_class",
        ),
    ],
)
def test_a_wrong_property_is_named_and_no_secret_is_shown(given: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        connection_settings(given, "c")
    assert name in str(caught.value)
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("kind", ["admin", "consumer", "producer"])
def test_an_unknown_property_is_logged_once_for_all_clients(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    name = f"a.typo.{kind}"
    with caplog.at_level(logging.WARNING):
        librdkafka_config(properties() | {name: "hunter22"}, kind)
        connection_settings(properties() | {name: "hunter22"}, "c")
    assert caplog.messages == [f"The client property {name} is unknown and has no effect"]


def test_a_property_of_another_kind_of_client_passes_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        librdkafka_config(properties(linger_ms="5", key_serializer="x"), "consumer")
    assert caplog.messages == []


def test_settings_show_no_password() -> None:
    assert "hunter22" not in repr(connection_settings(login("PLAIN", PLAIN), "c"))


def test_a_client_id_of_the_properties_goes_before_the_one_proposed() -> None:
    assert [connection_settings(properties(client_id=given), "proposed").client_id for given in ("", "own")] == [
        "proposed",
        "own",
    ]


def test_defaults_are_those_of_java() -> None:
    consumer, producer = librdkafka_config(properties(), "consumer"), librdkafka_config(properties(), "producer")
    assert (consumer["isolation.level"], producer["enable.idempotence"], producer["partitioner"]) == (
        "read_uncommitted",
        True,
        "murmur2_random",
    )


def test_idempotence_gives_way_to_acks_unless_asked_for() -> None:
    assert librdkafka_config(properties(acks="1"), "producer")["enable.idempotence"] is False


def test_idempotence_asked_for_against_acks_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"enable\.idempotence: it needs acks=all"):
        librdkafka_config(properties(acks="1", enable_idempotence="true"), "producer")


EXTREMES = {
    "request.timeout.ms": "2147483647",
    "connections.max.idle.ms": "-1",
    "metadata.max.age.ms": "9223372036854775807",
    "retry.backoff.ms": "0",
    "reconnect.backoff.max.ms": "9223372036854775807",
    "receive.buffer.bytes": "-1",
    "send.buffer.bytes": "-1",
    "socket.connection.setup.timeout.ms": "1",
    "metadata.recovery.strategy": "NONE",
    "fetch.max.bytes": "2147483647",
    "max.partition.fetch.bytes": "2147483647",
    "session.timeout.ms": "1800000",
    "fetch.min.bytes": "0",
    "auto.offset.reset": "none",
    "group.id": "g",
    "delivery.timeout.ms": "2147483647",
    "max.request.size": "0",
    "linger.ms": "9223372036854775807",
    "buffer.memory": "9223372036854775807",
    "max.in.flight.requests.per.connection": "1",
    "compression.type": "zstd",
}


@pytest.mark.parametrize("given", [{}, EXTREMES], ids=["defaults", "extremes"])
@pytest.mark.parametrize(("kind", "client"), [("admin", AdminClient), ("consumer", Consumer), ("producer", Producer)])
def test_librdkafka_takes_what_java_takes(kind: Kind, client: type, given: dict[str, str]) -> None:
    config = librdkafka_config(properties() | given, kind) | {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    config.setdefault("group.id", "g") if kind == "consumer" else None
    assert client(config) is not None
