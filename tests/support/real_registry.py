"""Debian's `docker-registry` on this machine, with or without a password, and images pushed to it."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from images import BuiltImage

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_LISTENING = re.compile(r"listening on (127\.0\.0\.1:\d+)")
_PULL = re.compile(r'"GET /v2/\S+/blobs/(\S+) HTTP')


@dataclass(frozen=True, slots=True)
class RealRegistry:
    """A registry that runs; `log` is what it writes."""

    address: str
    log: Path
    login: tuple[str, str] | None

    def push(self, name: str, tag: str, image: BuiltImage) -> str:
        """Put an image there; what it is called."""
        base = f"http://{self.address}/v2/{name}"
        for digest, content in image.contents.items():
            with self._send("POST", f"{base}/blobs/uploads/") as answer:
                place = answer.headers["Location"]
            with self._send("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", content):
                pass
        with self._send("PUT", f"{base}/manifests/{tag}", image.manifest, _MANIFEST):
            pass
        return f"{self.address}/{name}:{tag}"

    def pulls(self) -> list[str]:
        """The digests whose bytes were asked for, each time."""
        return _PULL.findall(self.log.read_text())

    def _send(self, method: str, url: str, data: bytes = b"", kind: str = "application/octet-stream") -> Any:
        request = urllib.request.Request(url, data, {"Content-Type": kind}, method=method)
        if self.login is not None:
            pair = base64.b64encode(":".join(self.login).encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        return urllib.request.urlopen(request, timeout=30)


@contextmanager
def real_registry(directory: Path, *, login: tuple[str, str] | None = None) -> Iterator[RealRegistry]:
    """A registry without TLS whose images lie below the directory; skips the test where there is none."""
    program, passwords = shutil.which("docker-registry"), shutil.which("htpasswd")
    if program is None or passwords is None:
        pytest.skip("no registry here: apt-get install docker-registry apache2-utils")
    access = ""
    if login is not None:
        made = subprocess.run([passwords, "-Bbn", *login], capture_output=True, text=True, check=True)
        (directory / "htpasswd").write_text(made.stdout)
        access = f"auth: {{htpasswd: {{realm: tests, path: {directory}/htpasswd}}}}\n"
    config = directory / "config.yml"
    config.write_text(
        "version: 0.1\nlog: {accesslog: {disabled: false}}\n"
        f"storage: {{filesystem: {{rootdirectory: {directory}/images}}}}\n"
        f"http: {{addr: '127.0.0.1:0'}}\n{access}"
    )
    log = directory / "log"
    with log.open("wb") as file:
        env = {"PATH": os.environ["PATH"], "HOME": str(directory), "OTEL_TRACES_EXPORTER": "none"}
        process = subprocess.Popen([program, "serve", config], stdout=file, stderr=subprocess.STDOUT, env=env)
    try:
        yield RealRegistry(_address(process, log), log, login)
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens, once it says so."""
    with log.open() as lines:
        text = ""
        while process.poll() is None:
            text += lines.read()
            if (found := _LISTENING.search(text)) is not None:
                return found[1]
    raise AssertionError(f"the registry has ended: {log.read_text()}")
