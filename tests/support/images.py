"""Small images made on the spot, and a registry that serves them: for tests of runs in images.

The one program in them is Debian's static busybox; where that is missing, tests that start something in an
image are skipped with the reason.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

BUSYBOX = Path("/bin/busybox")
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"

Entry = bytes | tarfile.TarInfo
"""The content of a file, or an entry of an archive as it is."""


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image: its manifest, and the bytes of every digest."""

    manifest: bytes
    contents: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """That of its manifest."""
        return digest_of(self.manifest)

    def write_archive(self, path: Path) -> Path:
        """The image as an OCI archive."""
        index = {"schemaVersion": 2, "manifests": [{"mediaType": _MANIFEST, "digest": self.digest}]}
        files = {f"blobs/{name.replace(':', '/')}": data for name, data in self.contents.items()}
        files[f"blobs/{self.digest.replace(':', '/')}"] = self.manifest
        files |= {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
        path.write_bytes(archive(list(files.items())))
        return path


def digest_of(content: bytes) -> str:
    """What the content is called."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def archive(entries: Sequence[tuple[str, Entry]]) -> bytes:
    """A tar archive of files (mode 755) and of entries that are given whole, in this order."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                entry.name = name
                tar.addfile(entry)
                continue
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(entry), 0o755
            tar.addfile(info, io.BytesIO(entry))
    return written.getvalue()


def special(kind: bytes, *, link: str = "", mode: int = 0o755) -> tarfile.TarInfo:
    """An entry that is no file: of tarfile's `SYMTYPE`, `LNKTYPE`, `DIRTYPE`, `CHRTYPE` ..."""
    info = tarfile.TarInfo()
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def build(*layers: bytes, env: Sequence[str] = (), architecture: str = MACHINE, **config: Any) -> BuiltImage:
    """An image of archives, each compressed."""
    packed = [gzip.compress(layer, 1, mtime=0) for layer in layers]
    said = {"architecture": architecture, "os": "linux", "config": {"Env": list(env), **config}}
    configured = json.dumps(said).encode()
    pieces = [{"digest": digest_of(layer), "size": len(layer)} for layer in packed]
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": {"digest": digest_of(configured), "size": len(configured)},
        "layers": pieces,
    }
    return BuiltImage(
        json.dumps(manifest).encode(), {digest_of(data): data for data in (*packed, configured)}
    )


@lru_cache(maxsize=1)
def busybox_layer() -> bytes:
    """A layer with busybox and its commands; skips the test where there is none that is static."""
    listed = None
    if BUSYBOX.exists() and b"interpreter" not in BUSYBOX.read_bytes()[:4096]:
        listed = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=False)
    if listed is None or listed.returncode != 0 or b"/ld-linux" in BUSYBOX.read_bytes()[:4096]:
        pytest.skip("no static busybox here: apt-get install busybox-static")
    names = [name for name in listed.stdout.split() if name != "busybox"]
    commands = [(f"bin/{name}", special(tarfile.SYMTYPE, link="busybox")) for name in names]
    passwd = b"root:x:0:0:root:/root:/bin/sh\n"
    return archive([("bin/busybox", BUSYBOX.read_bytes()), *commands, ("etc/passwd", passwd)])


def busybox_image(*layers: bytes, env: Sequence[str] = (), **config: Any) -> BuiltImage:
    """An image in which a shell and the usual commands are, and more layers above."""
    return build(busybox_layer(), *layers, env=env, **config)


@dataclass(slots=True)
class RegistryDouble:
    """A registry on this machine. `login`: who alone is let in, by a token of its own where `tokens`.

    `break_at`: the first answer with a layer ends after so many bytes. `elsewhere`: the address that layers
    are fetched from instead. `requests` are the paths that were asked for, `seen` the Authorization of each.
    """

    images: dict[str, BuiltImage] = field(default_factory=dict)
    login: tuple[str, str] | None = None
    tokens: bool = False
    break_at: int | None = None
    elsewhere: str | None = None
    gate: threading.Event | None = None
    requests: list[str] = field(default_factory=list)
    seen: list[str | None] = field(default_factory=list)
    address: str = ""

    def pulls(self) -> list[str]:
        """The layers and configurations that were fetched."""
        return [path for path in self.requests if "/blobs/" in path]


@contextmanager
def registry(**settings: Any) -> Iterator[RegistryDouble]:
    """A registry that answers on a port of the loopback address."""
    double = RegistryDouble(**settings)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(double, self)

        def log_message(self, *_: object) -> None:
            """Nothing: pytest shows what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket.setblocking(False)  # a client that has left in between must not keep accept waiting
    server.daemon_threads = True
    double.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(double: RegistryDouble, request: BaseHTTPRequestHandler) -> None:
    authorization = request.headers.get("Authorization")
    double.requests.append(request.path)
    double.seen.append(authorization)
    if request.path.startswith("/token"):
        known = double.login is None or authorization == _basic(*double.login)
        _send(request, 200 if known else 401, json.dumps({"token": "ticket"}).encode())
        return
    expected = None
    if double.tokens:
        expected = "Bearer ticket"
    elif double.login is not None:
        expected = _basic(*double.login)
    if expected is not None and authorization != expected:
        realm = f'Bearer realm="http://{double.address}/token",service="test"'
        challenge = realm if double.tokens else 'Basic realm="test"'
        _send(request, 401, b"{}", {"WWW-Authenticate": challenge})
        return
    name, kind, version = _parts(request.path)
    image = next((built for key, built in double.images.items() if key.rpartition(":")[0] == name), None)
    if image is None:
        _send(request, 404, b'{"errors":[{"code":"NAME_UNKNOWN"}]}')
    elif kind == "manifests":
        tagged = double.images.get(f"{name}:{version}")
        tagged = tagged or next((built for built in double.images.values() if built.digest == version), None)
        if tagged is None:
            _send(request, 404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
        else:
            _send(request, 200, tagged.manifest)
    else:
        _send_content(double, request, version)


def _send_content(double: RegistryDouble, request: BaseHTTPRequestHandler, digest: str) -> None:
    if double.elsewhere is not None:
        _send(request, 307, b"", {"Location": f"http://{double.elsewhere}{request.path}"})
        return
    content = next(built.contents[digest] for built in double.images.values() if digest in built.contents)
    begin = int((request.headers.get("Range") or "bytes=0-")[6:-1])
    if double.gate is not None and len(content) > 1000:
        double.gate.wait(60)
    request.send_response(206 if begin else 200)
    request.send_header("Content-Length", str(len(content) - begin))
    request.end_headers()
    if double.break_at is not None and len(content) > double.break_at:
        end, double.break_at = begin + double.break_at, None
        request.wfile.write(content[begin:end])
        request.wfile.flush()
        request.connection.close()
        request.close_connection = True
        return
    request.wfile.write(content[begin:])


def _parts(path: str) -> tuple[str, str, str]:
    words = path.removeprefix("/v2/").split("/")
    return "/".join(words[:-2]), words[-2], words[-1]


def _send(
    request: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str] | None = None
) -> None:
    request.send_response(status)
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
