"""An OAuth token endpoint that hands out unsigned tokens, which a broker without further settings accepts."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self

CLIENT_ID: Final = "me"
CLIENT_SECRET: Final = "oauth-secret"


class TokenEndpoint:
    """Serves `url` on loopback, from `with` to its end; `given`: tokens so far, each valid for `valid_s`."""

    def __init__(self, valid_s: int = 3600) -> None:
        self.given = 0
        self._valid_s = valid_s
        endpoint = self

        class Tokens(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                status, body = endpoint._answer(self.headers["Authorization"])
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        # As whoever starts a worker has to: no endpoint is asked that isn't allowed there.
        self._options = os.environ.get("KAFKA_OPTS")
        os.environ["KAFKA_OPTS"] = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.url}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
        if self._options is None:
            del os.environ["KAFKA_OPTS"]
        else:
            os.environ["KAFKA_OPTS"] = self._options

    def client_properties(self, bootstrap: str, secret: str = CLIENT_SECRET) -> dict[str, str]:
        """Java client properties that log in with tokens from here."""
        return {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            f'clientId="{CLIENT_ID}" clientSecret="{secret}" scope="kafka";',
        }

    def _answer(self, authorization: str) -> tuple[int, dict[str, object]]:
        if authorization != "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode():
            return 401, {"error": "invalid_client"}
        self.given += 1
        now = int(time.time())
        claims = {"sub": CLIENT_ID, "iat": now, "exp": now + self._valid_s, "scope": "kafka"}
        parts = [
            base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
            for part in ({"alg": "none"}, claims)
        ]
        return 200, {"access_token": ".".join([*parts, ""]), "expires_in": self._valid_s, "token_type": "Bearer"}
