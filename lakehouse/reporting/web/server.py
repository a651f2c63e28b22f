"""The server of `lakehouse ui`: on 127.0.0.1 only, read-only, and for this machine's own browser.

    a request ─▶ its Host is this server's, it comes from no other site ─▶ one reader, one page at a time

A name that somebody points to 127.0.0.1 is not this server's Host, so that no other site's script reads a
page (DNS rebinding). A page may load and run nothing but its own style and script (Content-Security-Policy),
and no other site may frame it. Only GET is answered. No request is logged: an address may hold a key's
values.

The pages are read by one thread, so that a lake has one reader however many windows are open; a request that
finds too many others waiting is refused.
"""

import errno
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import urlsplit

from lakehouse.errors import EnvironmentError_, LakehouseError
from lakehouse.reporting.web.details import error_page
from lakehouse.reporting.web.document import policy
from lakehouse.reporting.web.readings import NotThere
from lakehouse.reporting.web.routes import BadAddress, Site

LOG = logging.getLogger(__name__)
HOST = "127.0.0.1"
# Requests that may wait for the reader, and how many seconds one waits.
WAITING = 16
PATIENCE = 120
# Seconds that a request may take to arrive.
ARRIVAL = 20
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": policy(),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
Read = TypeVar("Read")


class Busy(LakehouseError):
    """Too many requests wait for the reader, or one has waited too long."""


class Server:
    """Listens from the beginning on, so that a port that is taken is known before Spark starts. `read` runs
    something in the one thread that reads the lake.
    """

    def __init__(self, port: int) -> None:
        self._reader = ThreadPoolExecutor(1, "lakehouse-ui")
        self._waiting = threading.BoundedSemaphore(WAITING)
        self.site: Site | None = None
        try:
            self._http = _Listener((HOST, port), _Request)
        except OSError as error:
            raise EnvironmentError_(_no_port(port, error)) from error
        self._http.ui = self

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def read(self, what: Callable[[], Read], patience: float | None = PATIENCE) -> Read:
        """What the function returns, which runs alone. Busy where too many wait, or for too long."""
        if not self._waiting.acquire(blocking=False):
            raise Busy("too many requests wait for this lake: close some windows, and load the page again")
        future = self._reader.submit(what)
        future.add_done_callback(lambda _: self._waiting.release())
        try:
            return future.result(patience)
        except TookTooLong as error:
            future.cancel()
            raise Busy(f"the lake has not been read within {patience:.0f} seconds: try again") from error

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, site: Site) -> None:
        """Answer requests until `stop`, Ctrl-C or SIGTERM."""
        self.site = site
        with suppress(KeyboardInterrupt):
            self._http.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Stop answering; what is being read is not waited for."""
        self._http.server_close()
        self._reader.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        """End `serve`, which another thread runs."""
        self._http.shutdown()

    def answer(self, path: str, query: str) -> tuple[HTTPStatus, str]:
        """The page of an address, or one that says what went wrong."""
        site = self.site
        assert site is not None
        try:
            return HTTPStatus.OK, self.read(site.page(path, query))
        except NotThere as error:
            return HTTPStatus.NOT_FOUND, error_page("Not there", str(error))
        except BadAddress as error:
            return HTTPStatus.BAD_REQUEST, error_page("Not understood", str(error))
        except Busy as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, error_page("Busy", str(error))
        except LakehouseError as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, error_page("The lake can't be read", str(error))
        except Exception as error:
            LOG.debug("failed", exc_info=error)
            # its text may quote data
            what = (
                f"internal error: {type(error).__name__}; `lakehouse --debug ui` shows where, on its terminal"
            )
            return HTTPStatus.INTERNAL_SERVER_ERROR, error_page("The lake can't be read", what)


def _no_port(port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"{HOST}:{port}: expected a free port, another program listens there; --port takes another one, "
            "--port 0 any that is free"
        )
    return f"{HOST}:{port}: expected a port to listen on, got: {error.strerror}; --port takes another one"


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    # On some systems a second server could else take the same port.
    allow_reuse_port = False
    ui: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone away is no error."""
        LOG.debug("a request failed", exc_info=True)


class _Request(BaseHTTPRequestHandler):
    server: _Listener
    timeout = ARRIVAL

    def do_GET(self) -> None:
        if not self._is_ours():
            what = f"expected a request to {self.server.ui.url} by its own pages; open that address"
            return self._send(HTTPStatus.FORBIDDEN, error_page("Refused", what))
        asked = urlsplit(self.path)
        return self._send(*self.server.ui.answer(asked.path, asked.query))

    def _is_ours(self) -> bool:
        """Whether the request names this server, and no page of another site has sent it, unless as a link
        that somebody follows.
        """
        port = self.server.ui.port
        hosts = self.headers.get_all("Host") or []
        if hosts not in ([f"{HOST}:{port}"], [f"localhost:{port}"]):
            return False
        site, mode = self.headers.get("Sec-Fetch-Site"), self.headers.get("Sec-Fetch-Mode")
        return site in (None, "same-origin", "none") or mode == "navigate"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no GET, or no HTTP, is refused with a page as all others."""
        status = HTTPStatus(code)
        if status is HTTPStatus.NOT_IMPLEMENTED:
            status = HTTPStatus.METHOD_NOT_ALLOWED
        self._send(status, error_page("Refused", f"{status.phrase}: expected a GET of a page"))

    def _send(self, status: HTTPStatus, html: str) -> None:
        body = html.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """Nobody needs to know which Python this is."""
        return "lakehouse"

    def log_message(self, format: str, *args: Any) -> None:
        """No request is logged."""
