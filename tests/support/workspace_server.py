"""A stand-in for a Databricks workspace: an HTTP server on 127.0.0.1 over the routes of `workspace_api.py`.

A call to an endpoint that it does not have is answered by 404 and kept in `Workspace.unknown`.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.workspace_api import ROUTES
from tests.support.workspace_state import Call, Json, Refused, Workspace


def _pattern(route: str) -> re.Pattern[str]:
    named = re.sub(r"\{(\w+)…\}", r"(?P<\1>.+)", route)
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", named))


_ROUTES = [(_pattern(route), function) for route, function in ROUTES.items()]


def answer(workspace: Workspace, method: str, target: str, body: bytes) -> Json | bytes:
    """The answer to a request; Refused where it is no success."""
    url = urlsplit(target)
    line = f"{method} {url.path}"
    query = {name: values[-1] for name, values in parse_qs(url.query).items()}
    for pattern, function in _ROUTES:
        found = pattern.fullmatch(line)
        if found:
            names = {name: unquote(value) for name, value in found.groupdict().items()}
            return function(workspace, Call(names, query, body))
    workspace.unknown.append(line)
    raise Refused(404, "ENDPOINT_NOT_FOUND", f"No API found for '{line}'")


def _handler(workspace: Workspace) -> type[BaseHTTPRequestHandler]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                with lock:
                    status, found = 200, answer(workspace, self.command, self.path, body)
            except Refused as refused:
                status, found = refused.status, {"error_code": refused.code, "message": str(refused)}
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            self.send_header(
                "Content-Type", "application/octet-stream" if isinstance(found, bytes) else "application/json"
            )
            self.send_header("Content-Length", str(len(data)))
            self.send_header("X-Databricks-Org-Id", "1")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = reply

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: what it can't answer is in `unknown`."""

    return Handler


@contextmanager
def serve(workspace: Workspace) -> Iterator[str]:
    """The workspace behind a port of its own; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(workspace))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
