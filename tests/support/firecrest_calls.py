"""Calls of the firecREST for tests, and its operations on files. Used by `firecrest_server`."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from firecrest_far_side import OPS_LIMIT, Failure, FarSide

SYSTEM = "local"


class Call:
    """A call's query, path and body."""

    def __init__(self, request: Request, body: bytes, roots: tuple[str, ...]) -> None:
        self.query = dict(request.query_params)
        self.path = request.path_params
        self._type = request.headers.get("content-type", "")
        self._body = body
        self._roots = roots

    @property
    def json(self) -> Any:
        return json.loads(self._body)

    def file(self, name: str, *others: str) -> str:
        """A path in the query or the body, which has to be below one of the roots."""
        values = self.query if name in self.query else self.json
        path = next(str(values[key]) for key in (name, *others) if key in values)
        if not any(path == root or path.startswith(f"{root}/") for root in self._roots):
            words = "does not match any of the defined filesystem paths for the requested system"
            raise Failure(400, f"The provided path ({path}) {words} ({SYSTEM}).")
        return path

    def uploaded(self) -> tuple[str, bytes]:
        """The name and content of the file in a form."""
        boundary = re.search("boundary=([^;]+)", self._type)
        assert boundary is not None
        part = self._body.split(b"--" + boundary[1].strip('"').encode())[1]
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'filename="([^"]*)"', head)
        assert name is not None
        return name[1].decode(), content.removesuffix(b"\r\n")


def _ls(far: FarSide, call: Call) -> Any:
    hidden, recursive = (call.query.get(name) == "true" for name in ("showHidden", "recursive"))
    return {"output": far.listing(call.file("path"), hidden=hidden, recursive=recursive)}


def _stat(far: FarSide, call: Call) -> Any:
    return {"output": far.stat(call.file("path"), dereference=call.query.get("dereference") == "true")}


def _lines(program: str) -> Callable[[FarSide, Call], Any]:
    def part(far: FarSide, call: Call) -> Any:
        kind = "bytes" if "bytes" in call.query else "lines"
        count = int(call.query.get(kind, 10))
        text = far.command([program, f"--{kind}={count}", "--", call.file("path")]).decode(errors="replace")
        begin, end = (0, count) if program == "head" else (-count, -1)
        return {"output": {"content": text, "contentType": kind, "startPosition": begin, "endPosition": end}}

    part.__name__ = program
    return part


def _checksum(far: FarSide, call: Call) -> Any:
    text = far.command(["sha256sum", "--", call.file("path")]).decode()
    return {"output": {"algorithm": "SHA256", "checksum": text.lstrip("\\").split()[0]}}


def _file_type(far: FarSide, call: Call) -> Any:
    far.command(["test", "-e", call.file("path")])
    return {"output": "ASCII text"}


def _download(far: FarSide, call: Call) -> Any:
    text = far.command(["base64", "--wrap=0", "--", call.file("path")])
    if len(text) >= OPS_LIMIT:
        raise Failure(502, "Command output exceeded buffer limit.")
    return b64decode(text)


def _mkdir(far: FarSide, call: Call) -> Any:
    path = call.file("sourcePath", "path")
    far.command(["mkdir", *(["-p"] if call.json.get("parent") else []), "--", path])
    return 201, {"output": far.entry(path)}


def _symlink(far: FarSide, call: Call) -> Any:
    path, link = call.file("sourcePath", "path"), call.json.get("linkPath") or call.json["link_path"]
    far.command(["ln", "-s", "--", path, link])
    return 201, {"output": far.entry(link)}


def _chmod(far: FarSide, call: Call) -> Any:
    path = call.file("path", "sourcePath")
    far.command(["chmod", "--", call.json["mode"], path])
    return {"output": far.entry(path)}


def _rm(far: FarSide, call: Call) -> Any:
    far.command(["rm", "-r", "--interactive=never", "--", call.file("path")])
    return 204, None


def _compress(far: FarSide, call: Call) -> Any:
    source, target = (
        call.file("source_path", "sourcePath"),
        call.json.get("target_path") or call.json["targetPath"],
    )
    directory, _, name = source.rpartition("/")
    far.command(["tar", "-czf", target, "-C", directory, name])
    return 204, None


def _extract(far: FarSide, call: Call) -> Any:
    source, target = (
        call.file("source_path", "sourcePath"),
        call.json.get("target_path") or call.json["targetPath"],
    )
    far.command(["tar", "-xzf", source, "-C", target])
    return 204, None


FILES: dict[tuple[str, str], Callable[[FarSide, Call], Any]] = {
    ("GET", "ls"): _ls,
    ("GET", "stat"): _stat,
    ("GET", "head"): _lines("head"),
    ("GET", "tail"): _lines("tail"),
    ("GET", "checksum"): _checksum,
    ("GET", "file"): _file_type,
    ("GET", "download"): _download,
    ("POST", "mkdir"): _mkdir,
    ("POST", "symlink"): _symlink,
    ("PUT", "chmod"): _chmod,
    ("DELETE", "rm"): _rm,
    ("POST", "compress"): _compress,
    ("POST", "extract"): _extract,
}
