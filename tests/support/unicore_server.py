"""A UNICORE/X for tests: the part of its REST interface that clients of batch jobs use, over TLS.

Knobs make it slow, failing after it did what was asked, forgetful and narrow.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from certificates import self_signed
from unicore_far_side import Refusal, Unicore, UnicoreJob, User, iso

SESSION = "X-UNICORE-SecuritySession"
BASE = "/SITE/rest/core"
ELSEWHERE = "https://elsewhere.invalid"
"""The host of all addresses in answers: behind a gateway they may name another one."""

METHODS = ("GET", "PUT", "POST", "DELETE")

Act = Callable[[Request, User, bytes], Response]


class Interface:
    """The routes of a site, below BASE."""

    def __init__(self, site: Unicore) -> None:
        self.site = site

    def application(self) -> Starlette:
        paths: list[tuple[str, str, Act]] = [
            ("GET", "", self.about),
            ("GET", "/jobs", self.list_jobs),
            ("POST", "/jobs", self.create_job),
            ("GET", "/jobs/{id}", self.show_job),
            ("DELETE", "/jobs/{id}", self.delete_job),
            ("GET", "/jobs/{id}/details", self.job_details),
            ("POST", "/jobs/{id}/actions/{action}", self.act_on_job),
            ("GET", "/storages", self.list_storages),
            ("GET", "/storages/{id}", self.show_storage),
            ("POST", "/storages/{id}/actions/rename", self.rename),
            *((method, "/storages/{id}/files/{path:path}", self.files) for method in METHODS),
            ("GET", "/factories", self.list_factories),
            ("GET", "/factories/default", self.show_factory),
        ]
        return Starlette(
            routes=[Route(BASE + path, self._handled(act), methods=[method]) for method, path, act in paths]
        )

    def _handled(self, act: Act) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            return await run_in_threadpool(_answer, self.site, act, request, await request.body())

        return handle

    def _listed(self, kind: str, request: Request, ids: Sequence[str]) -> Response:
        offset, num = int(request.query_params.get("offset", 0)), int(request.query_params.get("num", 200))
        page = ids[offset : offset + min(num, self.site.knobs.most_listed)]
        return JSONResponse({kind: [f"{ELSEWHERE}/{kind}/{each}" for each in page], "_links": {}})

    def _job(self, request: Request, user: User) -> UnicoreJob:
        return self.site.job(user, request.path_params["id"])

    def about(self, _request: Request, user: User, _body: bytes) -> Response:
        return JSONResponse(_about(user))

    def list_jobs(self, request: Request, user: User, _body: bytes) -> Response:
        wanted = set(filter(None, request.query_params.get("tags", "").split(",")))
        own = [job for job in reversed(self.site.jobs.values()) if job.owner == user.name]
        ids = [job.id for job in own if wanted <= set(job.described.get("Tags", []))]
        return self._listed("jobs", request, ids)

    def create_job(self, _request: Request, user: User, body: bytes) -> Response:
        job_id = self.site.create(user, json.loads(body))
        return Response(status_code=201, headers={"Location": f"{ELSEWHERE}{BASE}/jobs/{job_id}"})

    def show_job(self, request: Request, user: User, _body: bytes) -> Response:
        return JSONResponse(self.site.described(self._job(request, user)))

    def delete_job(self, request: Request, user: User, _body: bytes) -> Response:
        self.site.delete(user, self._job(request, user))
        return Response(status_code=204)

    def job_details(self, request: Request, user: User, _body: bytes) -> Response:
        return JSONResponse(self.site.details(self._job(request, user)))

    def act_on_job(self, request: Request, user: User, _body: bytes) -> Response:
        job = self._job(request, user)
        if request.path_params["action"] == "start":
            job.started = True
        else:
            self.site.abort(job)
        return JSONResponse({})

    def list_storages(self, request: Request, user: User, _body: bytes) -> Response:
        ids = [each for each in self.site.storages(user) if not each.endswith("-uspace")]
        return self._listed("storages", request, ids)

    def show_storage(self, request: Request, user: User, _body: bytes) -> Response:
        root = self.site.root(user, request.path_params["id"])
        links = {"action:rename": {"href": f"{ELSEWHERE}/"}}
        return JSONResponse({"mountPoint": f"{root}/", "usableSpace": 1 << 40, "_links": links})

    def rename(self, request: Request, user: User, body: bytes) -> Response:
        root, names = self.site.root(user, request.path_params["id"]), json.loads(body)
        self.site.run(user, ["mv", f"{root}{names['from']}", f"{root}{names['to']}"])
        return JSONResponse({})

    def files(self, request: Request, user: User, body: bytes) -> Response:
        root = self.site.root(user, request.path_params["id"])
        path = root / request.path_params.get("path", "").strip("/")
        return _file(self.site, request, user, root, path, body)

    def list_factories(self, request: Request, _user: User, _body: bytes) -> Response:
        return self._listed("factories", request, ["default"])

    def show_factory(self, _request: Request, user: User, _body: bytes) -> Response:
        return JSONResponse({"resources": _partitions(self.site, user)})


def _answer(site: Unicore, act: Act, request: Request, body: bytes) -> Response:
    path = request.url.path.removeprefix(BASE)
    site.requests.append(f"{request.method} {path}")
    site.preferences.append(request.headers.get("X-UNICORE-User-Preferences", ""))
    if site.knobs.delay_s:
        Event().wait(site.knobs.delay_s)
    if site.knobs.largest is not None and len(body) > site.knobs.largest:
        return JSONResponse({"errorMessage": "Request Entity Too Large"}, 413)
    if site.knobs.down:
        return JSONResponse({"errorMessage": "The server is shutting down"}, 503)
    try:
        user = site.user_of(request.headers.get("Authorization", ""))
        session = site.session(request.headers.get(SESSION), user)
        if user is None:
            if path:
                raise Refusal(403, "Access denied for anonymous")
            return JSONResponse(_about(None))
        answer = act(request, user, body)
    except Refusal as refusal:
        return JSONResponse({"errorMessage": str(refusal), "status": refusal.status}, refusal.status)
    if session is not None:
        answer.headers[SESSION] = session
    for part in site.knobs.fails_after:
        if part in f"{request.method} {path}":
            site.knobs.fails_after.remove(part)
            return JSONResponse({"errorMessage": "Bad gateway"}, 502)
    return answer


def _file(site: Unicore, request: Request, user: User, root: Path, path: Path, body: bytes) -> Response:
    """An operation on a file or directory."""
    method = request.method
    if method == "POST":
        site.run(user, ["mkdir", "-p", str(path)])
        return Response(status_code=201)
    if method == "DELETE":
        site.run(user, ["rm", "-rf", str(path)])
        return Response(status_code=204)
    if method == "PUT" and request.headers.get("Content-Type") == "application/json":
        mode = json.loads(body)["permissions"]
        parts = dict(zip("ugo", (mode[:3], mode[3:6], mode[6:]), strict=True))
        spec = ",".join(f"{who}={what.replace('-', '')}" for who, what in parts.items())
        site.run(user, ["chmod", spec, str(path)])
        return JSONResponse({"permissions": "OK"})
    if method == "PUT":
        site.run(user, ["mkdir", "-p", str(path.parent)])
        site.run(user, ["bash", "-c", f"cat > {shlex.quote(str(path))}"], given=body)
        return Response(status_code=204)
    facts = _facts(site, user, path)
    if "application/octet-stream" in request.headers.get("Accept", ""):
        begin, _, end = request.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        if int(begin) > facts["size"]:
            raise Refusal(500, "a real one never answers a range beyond the end")
        content = site.run(user, ["tail", "-c", f"+{int(begin) + 1}", str(path)])
        return Response(
            content[: int(end) + 1 - int(begin)] if end else content,
            206 if "Range" in request.headers else 200,
        )
    if facts["isDirectory"]:
        facts["content"] = _listing(site, user, root, path)
    return JSONResponse(facts)


def _about(user: User | None) -> dict[str, Any]:
    uid = {} if user is None else {"UID": user.name, "group": user.groups[0], "availableGroups": user.groups}
    role = "anonymous" if user is None else "user"
    return {
        "client": {
            "role": {"selected": role},
            "xlogin": uid,
            "dn": f"CN={user.name if user else 'nobody'}",
        },
        "server": {"version": "10.3.0", "jobSubmission": {"enabled": True, "message": "OK"}},
    }


def _facts(site: Unicore, user: User, path: Path) -> dict[str, Any]:
    line = site.run(user, ["stat", "--format=%F|%s|%Y|%U|%G|%A", str(path)]).decode().strip()
    kind, size, at, owner, group, mode = line.rsplit("|", 5)
    return {
        "isDirectory": kind == "directory",
        "size": int(size),
        "lastAccessed": iso(float(at)),
        "owner": owner,
        "group": group,
        "permissions": mode[1:],
    }


def _listing(site: Unicore, user: User, root: Path, path: Path) -> dict[str, Any]:
    text = site.run(
        user, ["find", str(path), "-mindepth", "1", "-maxdepth", "1", "-printf", "%y|%s|%T@|%p\\n"]
    )
    found = {}
    for line in text.decode().splitlines():
        kind, size, at, name = line.split("|", 3)
        local = "/" + os.path.relpath(name, root) + ("/" if kind == "d" else "")
        found[local] = {"isDirectory": kind == "d", "size": int(size), "lastAccessed": iso(float(at))}
    return found


def _partitions(site: Unicore, user: User) -> dict[str, dict[str, str]]:
    """The ranges that UNICORE shows for the partitions of the Slurm; None has GPUs."""
    found = {}
    for line in site.run(user, ["sinfo", "-h", "-o", "%R|%D|%c|%G"]).decode().splitlines():
        name, nodes, cpus, _ = line.split("|")
        found[name] = {"Nodes": f"1-{nodes}", "CPUsPerNode": f"1-{cpus.rstrip('+')}", "Runtime": "1-86400"}
    return found


@dataclass(frozen=True)
class Served:
    """A site that is served: its address, and a file with the certificate of its authority.

    `closing` is called before it ends.
    """

    site: Unicore
    url: str
    ca: Path
    closing: ExitStack


@contextmanager
def served(directory: Path, users: Sequence[User], variables: Mapping[str, str]) -> Iterator[Served]:
    """Serve a site on the loopback, over TLS with a certificate of its own authority."""
    directory.mkdir(parents=True, exist_ok=True)
    certificate = self_signed(directory / "unicore.pem", names=("localhost", "127.0.0.1"))
    site = Unicore(directory, users, variables)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        Interface(site).application(),
        log_level="critical",
        ssl_certfile=certificate,
        ssl_keyfile=certificate,
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
    )
    server = uvicorn.Server(config)
    threads = [
        Thread(target=server.run, args=([listener],), daemon=True),
        Thread(target=site.serve, daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        with ExitStack() as closing:
            yield Served(site, f"https://localhost:{listener.getsockname()[1]}{BASE}", certificate, closing)
    finally:
        server.should_exit = True
        site.close()
        for thread in threads:
            thread.join()
