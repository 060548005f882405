"""Strimzi's config providers for Kubernetes, against a server that answers as Kubernetes' API does."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror_connect.app.config.config_providers import Resolver
from mirror_connect.app.config.kubernetes_providers import (
    ANSWER_S,
    KubernetesConfigMapProvider,
    KubernetesSecretProvider,
)
from mirror_connect.connectors.errors import ConfigError
from tests.fakes.certificates import party
from tests.fakes.kubernetes_api import TOKEN, KubernetesApi, endless

PASSWORD = "s3cret-für-alle"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[KubernetesApi]:
    with KubernetesApi(tmp_path) as api:
        api.add_secret("kafka/login", {"password": PASSWORD, "user": "mirror", "bytes": b"\xff\xfe"})
        api.add_secret("other/login", {"password": "of the other namespace"})
        api.add_secret("kafka/certificates", {"b.crt": "B", "a.crt": "A", "a.key": "K"})
        api.add_config_map("kafka/choices", {"topics": "orders.*", "empty": ""})
        yield api


def resolver(api: KubernetesApi, answer_s: float = ANSWER_S, separator: dict[str, str] | None = None) -> Resolver:
    given = {"service_account": api.account, "answer_s": answer_s}
    return Resolver(
        {
            "secrets": KubernetesSecretProvider("secrets", separator or {}, api.environment, **given),  # type: ignore[arg-type]
            "maps": KubernetesConfigMapProvider("maps", separator or {}, api.environment, **given),  # type: ignore[arg-type]
        }
    )


def refusal(api: KubernetesApi, reference: str, answer_s: float = ANSWER_S) -> str:
    with pytest.raises(ConfigError) as refused:
        resolver(api, answer_s).resolve({"sasl.jaas.config": reference})
    text = str(refused.value)
    assert "\n" not in text
    assert not any(secret in text for secret in (PASSWORD, TOKEN, api.token))
    return text


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("${secrets:kafka/login:password}", PASSWORD, id="namespace_and_name"),
        pytest.param("${secrets:login:user}", "mirror", id="the_worker's_own_namespace"),
        pytest.param("${secrets:other/login:password}", "of the other namespace", id="another_namespace"),
        pytest.param("${maps:kafka/choices:topics}", "orders.*", id="a_config_map"),
        pytest.param("${maps:choices:empty}", "", id="an_empty_value"),
        pytest.param("${secrets:certificates:*.crt}", "A\nB", id="a_pattern_joins_by_key"),
        pytest.param("u=${secrets:login:user} t=${maps:choices:topics}", "u=mirror t=orders.*", id="inside_a_text"),
    ],
)
def test_a_reference_gives_the_value_of_the_key(api: KubernetesApi, written: str, expected: str) -> None:
    assert resolver(api).resolve({"k": written}) == {"k": expected}


def test_values_of_a_pattern_are_joined_by_the_separator(api: KubernetesApi) -> None:
    config = {"k": "${secrets:certificates:a.*}"}
    assert resolver(api, separator={"separator": ","}).resolve(config) == {"k": "A,K"}


def test_one_request_gives_all_keys_of_an_object(api: KubernetesApi) -> None:
    resolver(api).resolve({"a": "${secrets:login:user}", "b": "${secrets:login:password}"})
    assert api.asked == ["/api/v1/namespaces/kafka/secrets/login"]


def test_a_key_that_is_not_there_is_empty_with_one_warning(
    api: KubernetesApi, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert resolver(api).resolve({"k": "${secrets:login:pasword}"}) == {"k": ""}
    assert caplog.messages == ["Secret kafka/login has no key pasword: the reference to it gives an empty value"]


def test_a_rotated_token_is_used_from_the_next_read(api: KubernetesApi) -> None:
    resolving = resolver(api)
    resolving.resolve({"k": "${secrets:login:user}"})
    api.token = "second"
    assert "does not accept the token" in refusal(api, "${secrets:login:user}")
    (api.account / "token").write_text("second\n")
    assert resolving.resolve({"k": "${secrets:login:user}"}) == {"k": "mirror"}


def test_a_name_that_is_not_there_is_told(api: KubernetesApi) -> None:
    text = refusal(api, "${secrets:gone:password}")
    assert text.startswith(f"Could not read Secret kafka/gone of Kubernetes: the API at https://127.0.0.1:{api.port}")
    assert "there is no Secret gone in namespace kafka; create it or correct the reference (sasl.jaas.config" in text


def test_a_missing_right_is_told_with_the_role_to_give(api: KubernetesApi) -> None:
    api.forbidden = {"choices"}
    text = refusal(api, "${maps:choices:topics}")
    assert "needs a Role in namespace kafka with the verb get on configmaps, resourceNames choices" in text


@pytest.mark.parametrize(
    "path", ["", "Kafka/login", "kafka/login/more", "../login", "kafka/..", "kafka/login?x", "kafka/lo%2Fgin"]
)
def test_a_path_of_another_form_is_refused_unasked(api: KubernetesApi, path: str) -> None:
    assert "it has to be NAMESPACE/NAME" in refusal(api, f"${{secrets:{path}:password}}")
    assert api.asked == []


def test_the_whole_object_has_no_form(api: KubernetesApi) -> None:
    assert "and then a colon and a KEY" in refusal(api, "${secrets:kafka/login}")


@pytest.mark.parametrize(
    ("status", "content", "told"),
    [
        pytest.param(200, b"no JSON", "answered with no JSON", id="no_json"),
        pytest.param(200, b"[" * 100_000, "answered with no JSON", id="deep_json"),
        pytest.param(200, b'["Secret"]', "answered with no Secret", id="a_list"),
        pytest.param(200, b'{"kind": "SecretList", "items": []}', "answered with no Secret", id="another_kind"),
        pytest.param(302, b"", "answered with status 302", id="a_redirect"),
        pytest.param(200, b'{"kind": "Secret", "data": {"password": "%%"}}', "password isn't base64", id="no_base64"),
    ],
)
def test_another_answer_is_refused(api: KubernetesApi, status: int, content: bytes, told: str) -> None:
    api.instead = [(status, content)]
    assert told in refusal(api, "${secrets:login:password}")


def test_a_secret_without_data_gives_an_empty_value(api: KubernetesApi) -> None:
    api.instead = [(200, b'{"kind": "Secret", "apiVersion": "v1", "type": "Opaque"}')]
    assert resolver(api).resolve({"k": "${secrets:login:user}"}) == {"k": ""}


def test_bytes_that_are_no_text_are_refused(api: KubernetesApi) -> None:
    assert "its key bytes isn't UTF-8 at byte 0" in refusal(api, "${secrets:login:bytes}")


def test_a_short_fault_of_the_api_is_waited_for(api: KubernetesApi) -> None:
    api.instead = [(503, b""), lambda _: None]
    assert resolver(api).resolve({"k": "${secrets:login:user}"}) == {"k": "mirror"}
    assert len(api.asked) == 3


def test_a_lasting_fault_of_the_api_is_told_in_time(api: KubernetesApi) -> None:
    api.instead = [(500, b"")] * 100
    assert "answered with status 500" in refusal(api, "${secrets:login:user}", 1.5)


def test_an_answer_byte_by_byte_ends_in_time(api: KubernetesApi) -> None:
    api.instead = [endless(api, 1)]
    begin = time.monotonic()
    assert "did not answer within 0.6 s" in refusal(api, "${secrets:login:password}", 0.6)
    assert time.monotonic() - begin < 5


def test_an_endless_answer_is_cut(api: KubernetesApi) -> None:
    api.instead = [endless(api, 1 << 16)]
    assert "answered with more than 4 MiB" in refusal(api, "${secrets:login:password}", 60)


def test_a_compressed_answer_is_not_unpacked(api: KubernetesApi) -> None:
    def compressed(request: object) -> None:
        content = gzip.compress(b"0" * 1000)
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        request.wfile.write(head + content)  # type: ignore[attr-defined]

    api.instead = [compressed]
    assert "compressed content, which was not requested" in refusal(api, "${secrets:login:password}")


def test_a_server_of_another_authority_gets_no_token(api: KubernetesApi) -> None:
    (api.account / "ca.crt").write_text(party("stranger", None, ca=True).pem)
    assert "its certificate is not signed by the given authority" in refusal(api, "${secrets:login:password}")
    assert api.asked == []


def test_nobody_at_the_address_is_told(api: KubernetesApi) -> None:
    api.environment["KUBERNETES_SERVICE_PORT"] = "1"
    assert "https://127.0.0.1:1 can't be reached" in refusal(api, "${secrets:login:password}", 0.5)


def test_outside_kubernetes_a_provider_can_be_declared_but_not_used(api: KubernetesApi, tmp_path: Path) -> None:
    api.account = tmp_path / "none"
    assert resolver(api).resolve({"k": "plain"}) == {"k": "plain"}
    assert "run the worker in a pod with a service account, or set KUBECONFIG" in refusal(api, "${secrets:login:user}")


def test_a_name_server_that_does_not_answer_is_within_the_limit(
    api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, answered = threading.Event(), []

    def hangs(*_: object, **__: object) -> list[object]:
        answered.append(answer.wait(30))
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    api.environment["KUBERNETES_SERVICE_HOST"] = "kubernetes.default.svc"
    text = refusal(api, "${secrets:login:user}", 0.2)
    # The start goes on while the name server is still silent.
    assert answered == []
    answer.set()
    assert "did not answer within 0.2 s" in text
