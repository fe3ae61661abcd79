"""A UNICORE/X for tests: the part of its REST interface that clients of batch jobs use, over TLS.

Knobs make it slow, failing after it did what was asked, forgetful and narrow.
"""

from __future__ import annotations

import json
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
from unicore_far_side import Refusal, Unicore, User

SESSION = "X-UNICORE-SecuritySession"
BASE = "/SITE/rest/core"
ELSEWHERE = "https://elsewhere.invalid"
"""The host of all addresses in answers: behind a gateway they may name another one."""


def application(site: Unicore) -> Starlette:
    """The routes of a site, below BASE."""

    def handled(act: Callable[[Request, User, bytes], Response]) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            body = await request.body()
            return await run_in_threadpool(_answer, site, act, request, body)

        return handle

    def listed(kind: str, request: Request, ids: Sequence[str]) -> Response:
        offset, num = int(request.query_params.get("offset", 0)), int(request.query_params.get("num", 200))
        page = ids[offset : offset + min(num, site.knobs.most_listed)]
        return JSONResponse({kind: [f"{ELSEWHERE}/{kind}/{each}" for each in page], "_links": {}})

    def list_jobs(request: Request, user: User, _body: bytes) -> Response:
        wanted = set(filter(None, request.query_params.get("tags", "").split(",")))
        own = [job for job in reversed(site.jobs.values()) if job.owner == user.name]
        return listed(
            "jobs", request, [job.id for job in own if wanted <= set(job.described.get("Tags", []))]
        )

    def create_job(_request: Request, user: User, body: bytes) -> Response:
        job_id = site.create(user, json.loads(body))
        return Response(status_code=201, headers={"Location": f"{ELSEWHERE}{BASE}/jobs/{job_id}"})

    def show_job(request: Request, user: User, _body: bytes) -> Response:
        return JSONResponse(site.described(site.job(user, request.path_params["id"])))

    def delete_job(request: Request, user: User, _body: bytes) -> Response:
        site.delete(user, site.job(user, request.path_params["id"]))
        return Response(status_code=204)

    def job_details(request: Request, user: User, _body: bytes) -> Response:
        return JSONResponse(site.details(site.job(user, request.path_params["id"])))

    def act_on_job(request: Request, user: User, _body: bytes) -> Response:
        job = site.job(user, request.path_params["id"])
        if request.path_params["action"] == "start":
            job.started = True
        else:
            site.abort(job)
        return JSONResponse({})

    def list_storages(request: Request, user: User, _body: bytes) -> Response:
        return listed(
            "storages", request, [each for each in site.storages(user) if not each.endswith("-uspace")]
        )

    def show_storage(request: Request, user: User, _body: bytes) -> Response:
        root = site.root(user, request.path_params["id"])
        links = {"action:rename": {"href": f"{ELSEWHERE}/"}}
        return JSONResponse({"mountPoint": f"{root}/", "usableSpace": 1 << 40, "_links": links})

    def rename(request: Request, user: User, body: bytes) -> Response:
        root, names = site.root(user, request.path_params["id"]), json.loads(body)
        site.run(user, ["mv", f"{root}{names['from']}", f"{root}{names['to']}"])
        return JSONResponse({})

    def files(request: Request, user: User, body: bytes) -> Response:
        root = site.root(user, request.path_params["id"])
        path = root / request.path_params.get("path", "").strip("/")
        return _file(site, request, user, root, path, body)

    def factories(_request: Request, _user: User, _body: bytes) -> Response:
        return listed("factories", _request, ["default"])

    def factory(_request: Request, user: User, _body: bytes) -> Response:
        return JSONResponse({"resources": _partitions(site, user)})

    methods = ["GET", "PUT", "POST", "DELETE"]
    return Starlette(
        routes=[
            Route(BASE, handled(lambda _request, user, _body: JSONResponse(site.about(user)))),
            Route(f"{BASE}/jobs", handled(list_jobs)),
            Route(f"{BASE}/jobs", handled(create_job), methods=["POST"]),
            Route(f"{BASE}/jobs/{{id}}", handled(show_job)),
            Route(f"{BASE}/jobs/{{id}}", handled(delete_job), methods=["DELETE"]),
            Route(f"{BASE}/jobs/{{id}}/details", handled(job_details)),
            Route(f"{BASE}/jobs/{{id}}/actions/{{action}}", handled(act_on_job), methods=["POST"]),
            Route(f"{BASE}/storages", handled(list_storages)),
            Route(f"{BASE}/storages/{{id}}", handled(show_storage)),
            Route(f"{BASE}/storages/{{id}}/actions/rename", handled(rename), methods=["POST"]),
            Route(f"{BASE}/storages/{{id}}/files/{{path:path}}", handled(files), methods=methods),
            Route(f"{BASE}/factories", handled(factories)),
            Route(f"{BASE}/factories/default", handled(factory)),
        ]
    )


def _answer(
    site: Unicore, act: Callable[[Request, User, bytes], Response], request: Request, body: bytes
) -> Response:
    path = request.url.path.removeprefix(BASE)
    site.requests.append(f"{request.method} {path}")
    site.preferences.append(request.headers.get("X-UNICORE-User-Preferences", ""))
    if site.knobs.delay_s:
        Event().wait(site.knobs.delay_s)
    if site.knobs.down:
        return JSONResponse({"errorMessage": "The server is shutting down"}, 503)
    try:
        user = site.user_of(request.headers.get("Authorization", ""))
        session = site.session(request.headers.get(SESSION), user)
        if user is None:
            if path:
                raise Refusal(403, "Access denied for anonymous")
            return JSONResponse(site.about(None))
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
    facts = site.facts(user, path)
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
        facts["content"] = site.listing(user, root, path)
    return JSONResponse(facts)


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
        application(site),
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
