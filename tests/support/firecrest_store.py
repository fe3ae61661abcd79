"""The object store (S3) of the firecREST for tests, and the site's jobs that copy between it and files.

Its addresses are signed, as those of a real one: they expire, and a request with a token as well is refused.
Used by `firecrest_server`.
"""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from firecrest_calls import SYSTEM, Call
from firecrest_far_side import Failure, FarSide

TRANSFER = f"/filesystem/{SYSTEM}/transfer"
ARRIVES = """#!/bin/bash
#SBATCH --output=/dev/null
for try in $(seq 600); do
    if curl -fsS -o {draft} {url}; then mv {draft} {target}; exit; fi
    sleep 0.1
done
exit 1
"""
"""Waits for the file, as the job of a real one does, which looks once a minute."""

LEAVES = """#!/bin/bash
#SBATCH --output=/dev/null
curl -fsS -T {source} {url}
"""


@dataclass
class Faults:
    """What goes wrong: a part is `lost`, addresses have `expired`, `half` of a file arrives at the site.

    `held` jobs of the site do not begin.
    """

    lost: bool = False
    expired: bool = False
    half: bool = False
    held: bool = False


@dataclass
class ObjectStore:
    """Objects by name, each of parts by number. `url` is that of the server."""

    url: Callable[[], str]
    part_bytes: int = 5 << 20
    faults: Faults = field(default_factory=Faults)
    objects: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def signed(self, name: str, more: str = "") -> str:
        return f"{self.url()}/store/{name}?{more}X-Amz-Signature=abc"

    async def answer(self, request: Request) -> Response:
        """One request with a signed address."""
        name, body = request.path_params["name"], await request.body()
        self.requests.append(f"{request.method} {request.headers.get('range', '')}".strip())
        if "authorization" in request.headers:
            return Response("<Error><Code>InvalidArgument</Code></Error>", 400)
        if self.faults.expired:
            return Response("<Error><Code>AccessDenied</Code></Error>", 403)
        if request.method == "PUT":
            return self._put(name, body, request.query_params.get("partNumber"))
        if request.method == "POST":
            return self._complete(name, body.decode())
        if name not in self.objects:
            return Response("<Error><Code>NoSuchKey</Code></Error>", 404)
        content = self.objects[name]
        given = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        if given is None:
            return Response(content[: len(content) // 2] if self.faults.half else content)
        return Response(content[int(given[1]) : int(given[2]) + 1], 206)

    def _put(self, name: str, body: bytes, part: str | None) -> Response:
        tag = md5(body, usedforsecurity=False).hexdigest()
        if part is None:
            self.objects[name] = body
        elif not (self.faults.lost and int(part) == 2):
            self.parts[name][int(part)] = body
        return Response(b"", headers={"ETag": f'"{tag}"'})

    def _complete(self, name: str, body: str) -> Response:
        """As a real one: an error may come with the state of success."""
        given = re.findall(r'<PartNumber>(\d+)</PartNumber><ETag>"(\w+)"</ETag>', body)
        parts = self.parts.pop(name)
        there = [
            (str(number), md5(part, usedforsecurity=False).hexdigest()) for number, part in parts.items()
        ]
        if given != sorted(there, key=lambda each: int(each[0])):
            return Response("<Error><Code>InvalidPart</Code></Error>")
        self.objects[name] = b"".join(parts[int(number)] for number, _ in given)
        return Response("<CompleteMultipartUploadResult/>")

    # --- transfers -----------------------------------------------------------------------------------

    def upload(self, far: FarSide, call: Call) -> Any:
        """Addresses for the parts of a file, and the job that copies it from here."""
        name, directives = _begun(call)
        size, target = int(directives["fileSize"]), call.file("sourcePath")
        self.parts[name] = {}
        count = -(-size // self.part_bytes)
        script = ARRIVES.format(
            draft=shlex.quote(f"{target}.1"),
            target=shlex.quote(target),
            url=shlex.quote(self.signed(name)),
        )
        given = {
            "partsUploadUrls": [self.signed(name, f"partNumber={part}&") for part in range(1, count + 1)],
            "completeUploadUrl": self.signed(name, "uploadId=1&"),
            "maxPartSize": self.part_bytes,
        }
        return self._submitted(far, call, "IngressFileTransfer", script, given)

    def download(self, far: FarSide, call: Call) -> Any:
        """The address of a file here, once the job has copied it."""
        name, _ = _begun(call)
        url = shlex.quote(self.signed(name))
        script = LEAVES.format(source=shlex.quote(call.file("sourcePath")), url=url)
        given = {"downloadUrl": self.signed(name)}
        return self._submitted(far, call, "OutgressFileTransfer", script, given)

    def _submitted(self, far: FarSide, call: Call, name: str, script: str, given: dict[str, Any]) -> Any:
        head, _, rest = script.partition("\n")
        account = call.json.get("account")
        lines = [f"#SBATCH --account={account}"] if account else []
        lines += ["#SBATCH --hold"] if self.faults.held else []
        script = "\n".join([head, *lines, rest])
        job_id = far.submit({"name": name, "script": script, "working_directory": "/tmp"})
        job = {"jobId": int(job_id), "system": SYSTEM, "workingDirectory": "/tmp", "logs": {}}
        return 201, {"transferJob": job, "transferDirectives": {"transferMethod": "s3", **given}}


def _begun(call: Call) -> tuple[str, Any]:
    directives = call.json["transferDirectives"]
    if directives["transferMethod"] != "s3":
        raise Failure(400, "Requested transfer method is not available.")
    return uuid.uuid4().hex, directives
