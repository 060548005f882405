"""Kafka's client settings for authentication and encryption (clients 4.3.1).

Without a prefix in a connector's config they are only checked. Clients read the prefixed forms (mirror/settings.py), such as
`source.cluster.` and `target.cluster.` with the names below.
"""

from __future__ import annotations

from typing import Final

from mirror_connect.connectors.config.table import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    SHORT,
    STRING,
    ConfigTable,
    Key,
)
from mirror_connect.connectors.config.validators import between, distinct, one_of_in_any_case
from mirror_connect.connectors.user_code.known_classes import JWT_RETRIEVER, JWT_VALIDATOR

SECURITY_PROTOCOLS: Final = ("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT")
security_protocol: Final = one_of_in_any_case(*SECURITY_PROTOCOLS)
_OAUTH: Final = "sasl.oauthbearer."

# fmt: off
SECURITY_PROTOCOL_KEY: Final = Key(
    "security.protocol", STRING, "PLAINTEXT", MEDIUM, "Protocol of connections to brokers.", validator=security_protocol)

TLS_KEYS: Final = ConfigTable(
    Key("ssl.protocol", STRING, "TLSv1.3", MEDIUM, "TLS version to begin with."),
    Key("ssl.provider", STRING, None, MEDIUM, "Security provider of a Java VM."),
    Key("ssl.cipher.suites", LIST, [], LOW, "Cipher suites allowed; empty: all that are supported.", validator=distinct()),
    Key("ssl.enabled.protocols", LIST, ["TLSv1.2", "TLSv1.3"], MEDIUM, "TLS versions allowed.", validator=distinct()),
    Key("ssl.keystore.type", STRING, "JKS", MEDIUM, "Format of the key store: JKS, PKCS12 or PEM."),
    Key("ssl.keystore.location", STRING, None, HIGH, "File of the key store."),
    Key("ssl.keystore.password", PASSWORD, None, HIGH, "Password of the key store file."),
    Key("ssl.key.password", PASSWORD, None, HIGH, "Password of the private key."),
    Key("ssl.keystore.key", PASSWORD, None, HIGH, "The private key itself, in PEM."),
    Key("ssl.keystore.certificate.chain", PASSWORD, None, HIGH, "The certificate chain itself, in PEM."),
    Key("ssl.truststore.certificates", PASSWORD, None, HIGH, "The trusted certificates themselves, in PEM."),
    Key("ssl.truststore.type", STRING, "JKS", MEDIUM, "Format of the trust store: JKS, PKCS12 or PEM."),
    Key("ssl.truststore.location", STRING, None, HIGH, "File of the trust store."),
    Key("ssl.truststore.password", PASSWORD, None, HIGH, "Password of the trust store file."),
    Key("ssl.keymanager.algorithm", STRING, "SunX509", LOW, "Key manager algorithm of a Java VM."),
    Key("ssl.trustmanager.algorithm", STRING, "PKIX", LOW, "Trust manager algorithm of a Java VM."),
    Key("ssl.endpoint.identification.algorithm", STRING, "https", LOW,
        "https: the certificate must name the broker's host; empty: it need not."),
    Key("ssl.secure.random.implementation", STRING, None, LOW, "Random number generator of a Java VM."),
    Key("ssl.engine.factory.class", CLASS, None, LOW, "Class that makes TLS engines in a Java VM."),
)

SASL_KEYS: Final = ConfigTable(
    Key("sasl.kerberos.service.name", STRING, None, MEDIUM, "Kerberos principal name of the brokers."),
    Key("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", LOW, "Path of the kinit command."),
    Key("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, LOW, "Part of a ticket's life after which it is renewed."),
    Key("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, LOW, "Random part added to the time of renewal."),
    Key("sasl.kerberos.min.time.before.relogin", LONG, 60000, LOW, "Least milliseconds between two renewals."),
    Key("sasl.login.refresh.window.factor", DOUBLE, 0.8, LOW,
        "Part of a credential's life after which it is refreshed.", validator=between(0.5, 1.0)),
    Key("sasl.login.refresh.window.jitter", DOUBLE, 0.05, LOW,
        "Random part added to the time of refresh.", validator=between(0.0, 0.25)),
    Key("sasl.login.refresh.min.period.seconds", SHORT, 60, LOW,
        "Least seconds before a credential is refreshed.", validator=between(0, 900)),
    Key("sasl.login.refresh.buffer.seconds", SHORT, 300, LOW,
        "Seconds kept between a refresh and the credential's end.", validator=between(0, 3600)),
    Key("sasl.mechanism", STRING, "GSSAPI", MEDIUM, "SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER …"),
    Key("sasl.jaas.config", PASSWORD, None, MEDIUM, "Login module and its options, as one JAAS entry."),
    Key("sasl.client.callback.handler.class", CLASS, None, MEDIUM, "SASL client callback handler."),
    Key("sasl.login.callback.handler.class", CLASS, None, MEDIUM, "SASL login callback handler."),
    Key("sasl.login.class", CLASS, None, MEDIUM, "Class that does the login."),
    Key("sasl.login.connect.timeout.ms", INT, None, LOW, "Milliseconds to connect to the identity provider."),
    Key("sasl.login.read.timeout.ms", INT, None, LOW, "Milliseconds to read from the identity provider."),
    Key("sasl.login.retry.backoff.max.ms", LONG, 10000, LOW, "Longest pause between two login tries, in milliseconds."),
    Key("sasl.login.retry.backoff.ms", LONG, 100, LOW, "First pause between two login tries, in milliseconds."),
    Key(_OAUTH + "jwt.retriever.class", CLASS, JWT_RETRIEVER, MEDIUM, "Class that gets the token."),
    Key(_OAUTH + "jwt.validator.class", CLASS, JWT_VALIDATOR, MEDIUM, "Class that checks the token."),
    Key(_OAUTH + "scope", STRING, None, MEDIUM, "Scope asked for at the token endpoint."),
    Key(_OAUTH + "client.credentials.client.id", STRING, None, MEDIUM, "Client id of the client-credentials grant."),
    Key(_OAUTH + "client.credentials.client.secret", PASSWORD, None, MEDIUM, "Its secret."),
    Key(_OAUTH + "assertion.algorithm", STRING, "RS256", MEDIUM,
        "Algorithm that signs an assertion.", validator=one_of_in_any_case("ES256", "RS256")),
    Key(_OAUTH + "assertion.claim.aud", STRING, None, MEDIUM, "Audience claim of an assertion."),
    Key(_OAUTH + "assertion.claim.exp.seconds", INT, 300, LOW,
        "Seconds for which an assertion is valid.", validator=between(0, 86400)),
    Key(_OAUTH + "assertion.claim.iss", STRING, None, MEDIUM, "Issuer claim of an assertion."),
    Key(_OAUTH + "assertion.claim.jti.include", BOOLEAN, False, MEDIUM, "Whether an assertion has an id of its own."),
    Key(_OAUTH + "assertion.claim.nbf.seconds", INT, 60, LOW,
        "Seconds before now from which an assertion is valid.", validator=between(0, 3600)),
    Key(_OAUTH + "assertion.claim.sub", STRING, None, MEDIUM, "Subject claim of an assertion."),
    Key(_OAUTH + "assertion.file", STRING, None, MEDIUM, "File of a ready-made assertion."),
    Key(_OAUTH + "assertion.private.key.file", STRING, None, MEDIUM, "File of the key that signs an assertion."),
    Key(_OAUTH + "assertion.private.key.passphrase", PASSWORD, None, MEDIUM, "Its passphrase."),
    Key(_OAUTH + "assertion.template.file", STRING, None, MEDIUM, "File of an assertion's header and claims."),
    Key(_OAUTH + "scope.claim.name", STRING, "scope", LOW, "Claim that holds the scope."),
    Key(_OAUTH + "sub.claim.name", STRING, "sub", LOW, "Claim that holds the subject."),
    Key(_OAUTH + "token.endpoint.url", STRING, None, MEDIUM, "URL of the identity provider's token endpoint."),
    Key(_OAUTH + "jwks.endpoint.url", STRING, None, MEDIUM, "URL of the identity provider's keys."),
    Key(_OAUTH + "jwks.endpoint.refresh.ms", LONG, 3600000, LOW, "Milliseconds between two reads of the keys."),
    Key(_OAUTH + "jwks.endpoint.retry.backoff.max.ms", LONG, 10000, LOW, "Longest pause between two tries of that."),
    Key(_OAUTH + "jwks.endpoint.retry.backoff.ms", LONG, 100, LOW, "First pause between two tries of that."),
    Key(_OAUTH + "clock.skew.seconds", INT, 30, LOW, "Seconds that clocks may differ."),
    Key(_OAUTH + "expected.audience", LIST, [], HIGH, "Audiences that a token may have.", validator=distinct()),
    Key(_OAUTH + "expected.issuer", STRING, None, HIGH, "Issuer that a token must have."),
    Key(_OAUTH + "header.urlencode", BOOLEAN, False, LOW, "Whether client id and secret are URL-encoded in the header."),
)
# fmt: on

CLUSTER_CLIENT_NAMES: Final = frozenset({"bootstrap.servers", "security.protocol", *TLS_KEYS.keys, *SASL_KEYS.keys})
