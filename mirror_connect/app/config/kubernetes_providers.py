"""Strimzi's config providers for Kubernetes: `${secrets:NAMESPACE/NAME:KEY}` reads a Secret, or a ConfigMap.

Names, forms and the parameter `separator` are those of kafka-kubernetes-config-provider. `NAME:KEY` means the worker's own
namespace. A KEY may be a pattern (`*.crt`): the values of all matching keys are joined. The API's answers are read with
limits of time and size; nothing of them is shown in texts.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import fnmatch
import json
import logging
import os
import re
import ssl
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from mirror_connect.app.config.kubernetes_access import SERVICE_ACCOUNT, Access, NoAccess, find_access
from mirror_connect.app.config.name_lookups import LookupLoop
from mirror_connect.connectors.errors import ConfigError

log = logging.getLogger(__name__)

ANSWER_S: Final = 5.0
# A Secret holds at most 1 MiB before base64, and its annotations at most 256 KiB.
MOST_BYTES: Final = 4 << 20
_PATH: Final = re.compile(r"(?:([a-z0-9.-]+)/)?([a-z0-9.-]+)")
_FIRST_PAUSE_S: Final = 0.1
_LATER: Final = (429, 500, 502, 503, 504)


class UnreadableObject(ConfigError):
    """A Secret or ConfigMap can't be read: `Could not read KIND NAMESPACE/NAME: <reason>`."""

    def __init__(self, kind: str, place: str, reason: str) -> None:
        super().__init__(place, None, reason)
        self.args = (f"Could not read {kind} {place} of Kubernetes: {reason}",)


class _KubernetesProvider:
    """The values of one kind of object. Thread-safe: it keeps nothing between two reads, so that tokens may rotate."""

    kind: ClassVar[str]
    plural: ClassVar[str]

    def __init__(
        self,
        alias: str,
        parameters: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        *,
        service_account: Path | None = None,
        answer_s: float = ANSWER_S,
    ) -> None:
        del alias
        self._separator = parameters.get("separator", "\n")
        self._environment = os.environ if environment is None else environment
        self._service_account = service_account or SERVICE_ACCOUNT
        self._answer_s = answer_s

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """The values of the keys in the object at `path`; an empty value, and a warning, for a key that is not there."""
        found = _PATH.fullmatch(path)
        if found is None or {".", ".."} & set(found.groups()):
            problem = "it has to be NAMESPACE/NAME, or NAME in the worker's own namespace, and then a colon and a KEY"
            raise UnreadableObject(self.kind, f"'{path}'", problem)
        namespace, name = found.groups()
        try:
            access = find_access(self._environment, self._service_account)
        except NoAccess as error:
            raise UnreadableObject(self.kind, path, str(error)) from None
        place = f"{namespace or access.namespace}/{name}"
        data = self._data(access, place)
        return {key: self._value(data, key, place) for key in keys}

    def absence(self, path: str, key: str) -> str:
        """See Provider. Each key has a value, so what is left is a value that looks like its own reference."""
        return f"key {key} of {self.kind} {path} has no other value"

    def _value(self, data: Mapping[str, Any], key: str, place: str) -> str:
        matching = sorted(each for each in data if each == key or fnmatch.fnmatchcase(each, key))
        if not matching:
            # As with Strimzi's provider the value is empty: no reference stays as text.
            log.warning("%s %s has no key %s: the reference to it gives an empty value", self.kind, place, key)
        return self._separator.join(self._text(each, data[each], place) for each in matching)

    def _text(self, key: str, value: object, place: str) -> str:
        raise NotImplementedError

    def _data(self, access: Access, place: str) -> Mapping[str, Any]:
        import httpx  # noqa: PLC0415 — slow to import, and few workers need it at their start

        namespace, _, name = place.partition("/")
        try:
            with asyncio.Runner(loop_factory=LookupLoop) as runner:
                content = runner.run(self._ask(access, f"/api/v1/namespaces/{namespace}/{self.plural}/{name}"))
        except _Unusable as error:
            advice = self._advice(error.status, access, namespace, name)
            raise UnreadableObject(self.kind, place, f"the API at {access.url} {error}{advice}") from None
        except TimeoutError:
            reason = f"the API at {access.url} did not answer within {self._answer_s:g} s"
            raise UnreadableObject(self.kind, place, reason) from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise UnreadableObject(self.kind, place, f"{access.url} can't be reached: {_reason(error)}") from None
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            raise UnreadableObject(self.kind, place, f"the API at {access.url} answered with no JSON") from None
        if not isinstance(document, dict) or document.get("kind") != self.kind:
            raise UnreadableObject(self.kind, place, f"the API at {access.url} answered with no {self.kind}")
        data = document.get("data")
        return data if isinstance(data, dict) else {}

    async def _ask(self, access: Access, path: str) -> bytes:
        import httpx  # noqa: PLC0415 — see _data

        pause = _FIRST_PAUSE_S
        # One limit for all: an answer may come one byte at a time.
        async with (
            asyncio.timeout(self._answer_s) as limit,
            httpx.AsyncClient(verify=access.tls, timeout=self._answer_s, trust_env=False) as client,
        ):
            while True:
                try:
                    return await _read(client, access, path)
                except (httpx.TransportError, _Unusable) as error:
                    left = (limit.when() or 0) - asyncio.get_running_loop().time()
                    final = isinstance(error, _Unusable) and error.status not in _LATER
                    # What can't be trusted now can't be trusted a second later.
                    if final or left < pause or _untrusted(error):
                        raise
                await asyncio.sleep(pause)
                pause *= 2

    def _advice(self, status: int, access: Access, namespace: str, name: str) -> str:
        if status == 401:
            return f", it does not accept {access.login}: look whether it belongs to this cluster and is still valid"
        if status == 403:
            return (
                f": the worker's account needs a Role in namespace {namespace} with the verb get on {self.plural}, "
                f"resourceNames {name}"
            )
        if status == 404:
            return f": there is no {self.kind} {name} in namespace {namespace}; create it or correct the reference"
        return ""


class KubernetesSecretProvider(_KubernetesProvider):
    """The values of Secrets, decoded from base64."""

    kind = "Secret"
    plural = "secrets"

    def _text(self, key: str, value: object, place: str) -> str:
        try:
            return base64.b64decode(str(value), validate=True).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableObject(self.kind, place, f"its key {key} isn't UTF-8 at byte {error.start}") from None
        except (binascii.Error, ValueError):
            raise UnreadableObject(self.kind, place, f"its key {key} isn't base64") from None


class KubernetesConfigMapProvider(_KubernetesProvider):
    """The texts of ConfigMaps."""

    kind = "ConfigMap"
    plural = "configmaps"

    def _text(self, key: str, value: object, place: str) -> str:
        return str(value)


class _Unusable(Exception):
    """An answer that is not the object. The text follows "the API at URL"."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def _read(client: Any, access: Access, path: str) -> bytes:
    extensions = {"sni_hostname": access.server_name} if access.server_name else {}
    # A small answer can decompress to any size, so none is compressed.
    headers = {**access.headers, "Accept": "application/json", "Accept-Encoding": "identity"}
    async with client.stream(
        "GET", access.url + path, headers=headers, extensions=extensions, follow_redirects=False
    ) as response:
        if response.status_code != 200:
            raise _Unusable(response.status_code, f"answered with status {response.status_code}")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise _Unusable(200, "answered with compressed content, which was not requested")
        content = bytearray()
        async for piece in response.aiter_raw():
            content += piece
            if len(content) > MOST_BYTES:
                raise _Unusable(200, f"answered with more than {MOST_BYTES >> 20} MiB")
        return bytes(content)


def _untrusted(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _reason(error: BaseException) -> str:
    if _untrusted(error):
        return "its certificate is not signed by the given authority, or for another name"
    return str(error) or type(error).__name__
