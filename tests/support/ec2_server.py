"""EC2 on this machine for tests: moto in a process of its own, and the proxy before it.

moto takes seconds to start: one serves all tests of a process, and is emptied before each.
"""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlencode
from xml.etree import ElementTree as Xml

from ec2_answers import Ec2Error
from ec2_proxy import KEY, REGION, VERSION, Ec2, LostAnswer
from source_tree import ROOT

LIMIT_S = 120.0
IMAGE = "ami-1e749f67"
IMAGES = ROOT / "tests/data/ec2_images.json"
"""The one image; as many real ones, it says that its disk stays after its machine."""

MOTO_HEADERS = {
    "Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/{REGION}/ec2/aws4_request, "
    "SignedHeaders=host, Signature=0",
    "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
}


@contextmanager
def moto_server(directory: Path) -> Iterator[int]:
    """The port of a moto with one image."""
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    env = {**os.environ, "MOTO_AMIS_PATH": str(IMAGES)}
    with (directory / "moto.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


@contextmanager
def ec2_account(moto_port: int, now: Callable[[], float]) -> Iterator[tuple[Ec2, str]]:
    """An empty account, and its address."""
    connection = http.client.HTTPConnection("127.0.0.1", moto_port, timeout=LIMIT_S)
    connection.request("POST", "/moto-api/reset")
    assert connection.getresponse().status == 200
    connection.close()
    account = Ec2(partial(_forwarded, moto_port), now)
    server = _Server(account)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield account, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        account.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _forwarded(moto_port: int, given: Mapping[str, str]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", moto_port, timeout=60)
    try:
        connection.request("POST", "/", urlencode({**given, "Version": VERSION}), MOTO_HEADERS)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def answered(account: Ec2, body: str, authorization: str) -> tuple[int, bytes]:
    """The status and the body of the answer to one request. Raises LostAnswer."""
    key = authorization.partition("Credential=")[2].partition("/")[0]
    try:
        return 200, account.answer(dict(parse_qsl(body, keep_blank_values=True)), key)
    except Ec2Error as error:
        return error.status, _error_body(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        try:
            status, answer = answered(self.server.account, body, self.headers.get("Authorization", ""))
        except LostAnswer:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "text/xml")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, account: Ec2) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.account = account


def _error_body(error: Ec2Error) -> bytes:
    root = Xml.Element("Response")
    found = Xml.SubElement(Xml.SubElement(root, "Errors"), "Error")
    Xml.SubElement(found, "Code").text = error.code
    Xml.SubElement(found, "Message").text = error.message
    return Xml.tostring(root)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        threading.Event().wait(0.05)
    raise AssertionError("moto does not start")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
