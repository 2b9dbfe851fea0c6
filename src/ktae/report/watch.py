"""A small server of the report's page: it follows a run while it is trained.

It answers GET and nothing else, and by default on this machine alone. A request whose `Host` is a
foreign name is refused: a page from elsewhere may let its own name point here (DNS rebinding), and
could then read the rollouts.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ktae.backends import take_compiled
from ktae.errors import InputError
from ktae.report import packing
from ktae.report.following import Following
from ktae.report.page import Page, render_watch

HOST = "127.0.0.1"
PORT = 8642
"""Taken unless another one is asked for; if it is in use, any free one."""

WAIT_SECONDS = 10.0
"""How long a request for changes waits for one."""

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
NO_FRAME = "frame-ancestors 'none'"

STEP_PATH = re.compile(r"/steps/(\d{1,15})")


class Server(ThreadingHTTPServer):
    """Serves the page of one run, and what is new of it."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, following: Following, title: str, host: str, port: int) -> None:
        """It listens, but answers only in `serve_forever`.

        Raises:
            OSError: the address cannot be had.
        """
        self.following = following
        self.page: Page = render_watch(title)
        self.stopped = threading.Event()
        self.thread: threading.Thread | None = None
        self.own_names = {"localhost", host, socket.gethostname(), socket.getfqdn()}
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, but for a page that was closed while it was answered."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Where the page is."""
        host, port = self.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}/"


@contextmanager
def serving(
    following: Following, title: str, *, host: str = HOST, port: int | None = None
) -> Iterator[Server]:
    """A server that listens, and the thread that follows the run; both end with the block.

    Args:
        following: the run.
        title: of the page.
        host: the address to listen on.
        port: None for `PORT` or, if it is in use, any free one; 0 for any free one.

    Raises:
        InputError: the address cannot be had, or jinja2 is not installed.
    """
    take_compiled()  # here: a thread that ended while it imports would leave a lock behind
    server = _listen(following, title, host, port)
    thread = threading.Thread(target=following.watch, args=(server.stopped,), daemon=True)
    server.thread = thread
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        following.end()
        server.server_close()
        thread.join(timeout=5)


def _listen(following: Following, title: str, host: str, port: int | None) -> Server:
    try:
        return Server(following, title, host, PORT if port is None else port)
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return _listen(following, title, host, 0)
        where = f"{host}, port {PORT if port is None else port}"
        raise InputError(f"cannot listen on {where}: {error.strerror or error}") from None


def is_own_name(header: str | None, names: set[str]) -> bool:
    """Whether a `Host` header names this machine, by an address or by one of `names`.

    An address cannot be made to point elsewhere, so any will do; and any port, since a tunnel may
    end at another one.
    """
    if not header:
        return False
    name = urlsplit(f"//{header}").hostname if header.isprintable() else None
    if name is None:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in {own.lower() for own in names}
    return True


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "ktae", ""
    timeout = 60

    def do_GET(self) -> None:  # the base class finds it by this name
        """The page, what is new since a number, or one step."""
        if self.server.stopped.is_set():  # a connection may outlive the server's block
            self.close_connection = True
            return
        try:
            allowed = is_own_name(self.headers.get("Host"), self.server.own_names)
        except ValueError:  # an address in brackets that is none
            allowed = False
        if not allowed:
            self._send_text(HTTPStatus.FORBIDDEN, "This server answers to its own address only.\n")
            return
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        step = STEP_PATH.fullmatch(url.path)
        if url.path == "/":
            page = self.server.page
            self._send("text/html", page.html.encode(), f"{page.policy}; {NO_FRAME}")
        elif url.path == "/changes":
            after = query.get("after", [""])[0]
            number = int(after) if re.fullmatch(r"\d{1,15}", after) else -1  # all, at once
            self._send_json(self.server.following.changes(number, WAIT_SECONDS))
        elif step is not None:
            self._send_step(int(step[1]), whole=query.get("whole") == ["1"])
        else:
            self._send_text(HTTPStatus.NOT_FOUND, "There is nothing here.\n")

    def _send_step(self, number: int, *, whole: bool) -> None:
        try:
            blocks = self.server.following.page(number, whole=whole)
        except InputError as error:
            self._send_text(HTTPStatus.CONFLICT, f"{error}\n")
            return
        if blocks is None:
            self._send_text(HTTPStatus.NOT_FOUND, "There is no such step any more.\n")
        else:
            self._send_json(blocks)

    def _send_json(self, content: object) -> None:
        self._send("application/json", packing.as_json(content))

    def _send_text(self, status: HTTPStatus, text: str) -> None:
        self._send("text/plain", text.encode(errors="replace"), status=status)

    def _send(
        self,
        kind: str,
        content: bytes,
        policy: str = f"default-src 'none'; {NO_FRAME}",
        status: HTTPStatus = HTTPStatus.OK,
    ) -> None:
        try:
            self.send_response(status)
            headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Security-Policy": policy}
            for name, value in (HEADERS | headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:  # the page was closed meanwhile
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal is the user's."""
