"""A store that answers as S3 does, and a proxy before it that fails at random, with a seed."""

import http.client
import random
import socket
import struct
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENT, STALL = 2.0, 2.5
"""Seconds that readers wait for an answer, and that a stalled answer takes."""

FAULTS = ("500", "503", "stall", "reset", "cut")
NOT_FORWARDED = frozenset(["connection", "keep-alive", "transfer-encoding", "content-length"])


@dataclass
class Faults:
    """Which answers of the proxy fail: a share of them, drawn with a seed, never more than some in a row.

    ``only`` says which faults there are, ``methods`` whose requests they befall.
    """

    share: float = 0.0
    seed: int = 0
    only: tuple[str, ...] = FAULTS
    methods: tuple[str, ...] = ("GET", "HEAD", "PUT", "POST", "DELETE")
    in_a_row: int = 4
    told: Counter[str] = field(default_factory=Counter)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng, self._row, self._lock = random.Random(self.seed), 0, threading.Lock()  # noqa: S311

    def draw(self, method: str, path: str) -> str | None:
        with self._lock:
            self.requests.append(f"{method} {path}")
            fails = method in self.methods and self._rng.random() < self.share and self._row < self.in_a_row
            self._row = self._row + 1 if fails else 0
            fault = self._rng.choice(self.only) if fails else None
            if fault is not None:
                self.told[fault] += 1
            return fault


class Proxy:
    """Hands requests on to a server, but for those that are drawn to fail."""

    def __init__(self, host: str, port: int) -> None:
        self.faults = Faults()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                outer.answer(self, host, port)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that gave up waiting is what is tested."""

        self.host, self.port = host, port
        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def make_bucket(self, name: str) -> None:
        onward = http.client.HTTPConnection(self.host, self.port, timeout=30)
        onward.request("PUT", f"/{name}")
        assert onward.getresponse().status == 200
        onward.close()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: BaseHTTPRequestHandler, host: str, port: int) -> None:
        body = _body(request)
        fault = self.faults.draw(request.command, request.path)
        if fault == "reset":
            request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            request.close_connection = True
        elif fault == "stall":
            time.sleep(STALL)
            request.close_connection = True
        elif fault in ("500", "503"):
            _refuse(request, int(fault))
        else:
            _forward(request, body, (host, port), cut=fault == "cut")


def _body(request: BaseHTTPRequestHandler) -> bytes:
    if request.headers.get("Expect", "").lower() == "100-continue":
        request.send_response_only(100)
        request.end_headers()
    return request.rfile.read(int(request.headers.get("Content-Length") or 0))


def _refuse(request: BaseHTTPRequestHandler, status: int) -> None:
    code = {500: "InternalError", 503: "SlowDown"}[status]
    blob = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
    request.send_response(status)
    request.send_header("Content-Type", "application/xml")
    request.send_header("Content-Length", str(len(blob)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(blob)


def _forward(request: BaseHTTPRequestHandler, body: bytes, server: tuple[str, int], *, cut: bool) -> None:
    onward = http.client.HTTPConnection(*server, timeout=30)
    headers = {name: value for name, value in request.headers.items() if name.lower() != "expect"}
    onward.request(request.command, request.path, body=body, headers=headers)
    answer = onward.getresponse()
    blob = answer.read()
    request.send_response(answer.status)
    for name, value in answer.getheaders():
        if name.lower() not in NOT_FORWARDED:
            request.send_header(name, value)
    length = answer.getheader("Content-Length") if request.command == "HEAD" else str(len(blob))
    request.send_header("Content-Length", length or "0")
    request.end_headers()
    request.wfile.write(blob[: len(blob) // 2] if cut else blob)
    onward.close()
    if cut and blob:  # the rest never comes
        request.wfile.flush()
        request.connection.shutdown(socket.SHUT_RDWR)
        request.close_connection = True
