"""A worker's REST interface, as far as a test answers for it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from tests.waiting import wait_for_state


class AnsweringWorker:
    """`url`: where it is."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: Counter[str] = Counter()

    def until_asked_for(self, path: str, times: int) -> None:
        """Waits until somebody has asked so often."""
        wait_for_state(lambda: self.asked[path] >= times, f"{path} is asked for {times} times", pause=0.02)


@contextlib.contextmanager
def worker_that_answers(answers: Mapping[str, Any]) -> Iterator[AnsweringWorker]:
    """Path → body; what is changed in them is told from then on."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            content = json.dumps(answers[self.path]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(content)
            worker.asked[self.path] += 1

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        worker = AnsweringWorker(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield worker
        finally:
            server.shutdown()
            thread.join()
