"""A firecREST of version 2 for tests, as recorded from a real one, over a real Slurm and the real disk.

It also gives the tokens. `Knobs` make it fail as real ones do. Used by the tests of the engine `firecrest`.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from firecrest_calls import FILES, SYSTEM, Call
from firecrest_far_side import OPS_LIMIT, Failure, FarSide, error_body
from firecrest_store import TRANSFER, ObjectStore

EXCHANGES = Path(__file__).parents[1] / "data/firecrest/exchanges.jsonl"
"""Calls of a real firecREST, one a line, with their answers."""

LEAST_LEFT_S = 30.0
OPS, JOBS, STATUS = f"/filesystem/{SYSTEM}/ops", f"/compute/{SYSTEM}/jobs", f"/status/{SYSTEM}"


@dataclass
class Knobs:
    """What this server does wrong, or else. `has_store`: large files pass through its object store.

    `fails`: the states of the next answers of a route, by its name.

    `loses`: as many answers to submissions are lost after the job was accepted. `hides`: new jobs are missing
    for so many seconds. `sick`: the scheduler is unhealthy; `lies`: and the list of systems does not say so.
    """

    token_life_s: float = 300.0
    slow_s: float = 0.0
    loses: int = 0
    hides_s: float = 0.0
    sick: bool = False
    lies: bool = False
    knows_names: bool = True
    has_ranges: bool = True
    corrupts: int = 0
    has_store: bool = False
    fails: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class Client:
    """A client of the tokens' issuer, and the user that it works as."""

    secret: str
    far: FarSide


class Firecrest:
    """The server: `clients` by id; paths below `roots` alone are served. `now` is its clock."""

    def __init__(
        self,
        clients: Mapping[str, Client],
        roots: tuple[str, ...],
        *,
        accounts: tuple[str, ...] = ("proj",),
        now: Callable[[], float] = time.time,
    ) -> None:
        self.clients = dict(clients)
        self.roots = roots
        self.accounts = accounts
        self.now = now
        self.knobs = Knobs()
        self.store = ObjectStore(lambda: self.url)
        self.url = ""
        self.calls: Counter[str] = Counter()
        self.submitted: list[Mapping[str, Any]] = []
        self.refused = 0
        self._tokens: dict[str, tuple[str, float]] = {}
        self._new: dict[str, float] = {}

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def forget_tokens(self) -> None:
        """Refuse every token that was given."""
        self._tokens.clear()

    def app(self) -> Starlette:
        routes = [
            Route("/token", self._token, methods=["POST"]),
            Route("/store/{name}", self.store.answer, methods=["GET", "PUT", "POST"]),
        ]
        for (method, path), handler in self._handlers().items():
            anywhere = path.replace(f"/{SYSTEM}", "/{system}")
            routes.append(Route(anywhere, self._route(handler), methods=[method], name=f"{method} {path}"))
        return Starlette(routes=routes)

    # --- tokens ------------------------------------------------------------------------------------

    async def _token(self, request: Request) -> Response:
        self.calls["token"] += 1
        form = dict(parse_qsl((await request.body()).decode()))
        client = self.clients.get(form.get("client_id", ""))
        if client is None or client.secret != form.get("client_secret"):
            return JSONResponse(
                {"error": "unauthorized_client", "error_description": "Invalid client secret"}, 401
            )
        token = uuid.uuid4().hex
        self._tokens[token] = form["client_id"], self.now() + self.knobs.token_life_s
        return JSONResponse(
            {"access_token": token, "expires_in": self.knobs.token_life_s, "token_type": "Bearer"}
        )

    def _client_of(self, request: Request) -> Client:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        client_id, until = self._tokens.get(token, ("", 0.0))
        self.refused += 1
        if client_id not in self.clients:
            raise Failure(401, "Invalid token")
        if until - self.now() < LEAST_LEFT_S:
            raise Failure(401, "Token expires too soon")
        self.refused -= 1
        return self.clients[client_id]

    # --- routes ------------------------------------------------------------------------------------

    def _route(self, handler: Callable[..., Any]) -> Callable[[Request], Any]:
        name = handler.__name__.lstrip("_")

        async def answer(request: Request) -> Response:
            body = await request.body()
            return await run_in_threadpool(self._answer, request, body, name, handler)

        return answer

    def _answer(self, request: Request, body: bytes, name: str, handler: Callable[..., Any]) -> Response:
        headers = {
            "f7t-appversion": "2.x.x",
            "f7t-timestamp": str(time.time()),
            "x-request-id": uuid.uuid4().hex,
        }
        user = None
        try:
            self.calls[name] += 1
            threading.Event().wait(self.knobs.slow_s)
            client = self._client_of(request)
            user = client.far.user
            if request.path_params.get("system", SYSTEM) != SYSTEM:
                raise Failure(404, "System not found")
            if pending := self.knobs.fails.get(name):
                raise Failure(pending.pop(0), f"{name} fails, as a test asks")
            if name in _SCHEDULED and self.knobs.sick:
                raise Failure(503, "The scheduler service for the requested system is unhealthy.")
            found = handler(client.far, Call(request, body, self.roots))
        except Failure as failure:
            body = error_body(failure.message, user)
            return Response(body, failure.status, headers, media_type="application/json")
        status, content = found if isinstance(found, tuple) else (200, found)
        if isinstance(content, bytes):
            return Response(content, status, headers, media_type="application/octet-stream")
        if content is None:
            return Response(b"", status, headers)
        return JSONResponse(content, status, headers)

    def _handlers(self) -> dict[tuple[str, str], Callable[..., Any]]:
        return {
            ("GET", "/status/systems"): self._systems,
            ("GET", f"{STATUS}/userinfo"): lambda far, _: far.userinfo(self.accounts),
            ("GET", f"{STATUS}/nodes"): self._nodes,
            ("GET", f"{STATUS}/partitions"): self._partitions,
            ("GET", f"{STATUS}/reservations"): lambda _far, _call: {"reservations": []},
            ("POST", JOBS): self._submit,
            ("GET", JOBS): self._jobs,
            ("GET", f"{JOBS}/{{job_id}}"): self._job,
            ("GET", f"{JOBS}/{{job_id}}/metadata"): self._metadata,
            ("DELETE", f"{JOBS}/{{job_id}}"): self._cancel,
            **{(method, f"{OPS}/{name}"): handler for (method, name), handler in FILES.items()},
            ("GET", f"{OPS}/view"): self._view,
            ("POST", f"{OPS}/upload"): self._upload,
            ("POST", f"{TRANSFER}/upload"): self._transfer_upload,
            ("POST", f"{TRANSFER}/download"): self._transfer_download,
        }

    def _systems(self, _far: FarSide, _call: Call) -> Any:
        """As recorded, with the current health and the paths of this machine."""
        found: Any = json.loads(EXCHANGES.read_text().partition("\n")[0])["resp"]
        (system,) = found["systems"]
        healthy = self.knobs.lies or not self.knobs.sick
        system["servicesHealth"][0] |= {
            "healthy": healthy,
            "message": None if healthy else "no answer to a ping",
        }
        system["fileSystems"] = [{**system["fileSystems"][0], "path": root} for root in self.roots]
        if self.knobs.has_store:
            system["dataOperation"]["data_transfer"] = {"serviceType": "s3"}
        return found

    def _nodes(self, far: FarSide, _call: Call) -> Any:
        return {"nodes": far.nodes()}

    def _partitions(self, far: FarSide, _call: Call) -> Any:
        return {"partitions": far.partitions()}

    def _submit(self, far: FarSide, call: Call) -> Any:
        job = call.json["job"]
        job_id = far.submit(job)
        self.submitted.append(job)
        self._new[job_id] = time.monotonic()
        if self.knobs.loses > 0:
            self.knobs.loses -= 1
            raise Failure(504, "upstream request timeout")
        return 201, {"jobId": job_id}

    def _jobs(self, far: FarSide, call: Call) -> Any:
        if not self.knobs.knows_names and "time_window" in call.query:
            raise Failure(422, "time_window: Extra inputs are not permitted")
        jobs = far.jobs(name=call.query.get("name"))
        return {"jobs": [job for job in jobs if not self._is_hidden(job["jobId"])] or None}

    def _job(self, far: FarSide, call: Call) -> Any:
        job_id = call.path["job_id"]
        found = [] if self._is_hidden(job_id) else far.jobs(job_id=job_id)
        if not found:
            raise Failure(404, "Job not found.")
        return {"jobs": found}

    def _metadata(self, far: FarSide, call: Call) -> Any:
        job_id = call.path["job_id"]
        shown = far.shown(job_id)
        names = {"standardInput": "StdIn", "standardOutput": "StdOut", "standardError": "StdErr"}
        files = {name: shown.get(key, "") for name, key in names.items()}
        return {"jobs": [{"jobId": job_id, "script": far.script_of(job_id), **files}]}

    def _cancel(self, far: FarSide, call: Call) -> Any:
        far.cancel(call.path["job_id"])
        return 204, None

    def _view(self, far: FarSide, call: Call) -> Any:
        offset, size = int(call.query.get("offset", 0)), int(call.query.get("size", OPS_LIMIT))
        if size > OPS_LIMIT:
            raise Failure(400, f"`size` value must be less than {OPS_LIMIT} bytes")
        if not self.knobs.has_ranges:
            offset, size = 0, OPS_LIMIT
        return {"output": far.view(call.file("path"), offset, size)}

    def _upload(self, far: FarSide, call: Call) -> Any:
        name, content = call.uploaded()
        if len(content) > OPS_LIMIT:
            raise Failure(413, "Uploaded file is too large.")
        if self.knobs.corrupts > 0 and content:
            self.knobs.corrupts -= 1
            content = content[:-1]
        far.upload(f"{call.file('path')}/{name}", content)
        return 204, None

    def _transfer_upload(self, far: FarSide, call: Call) -> Any:
        return self.store.upload(far, call)

    def _transfer_download(self, far: FarSide, call: Call) -> Any:
        return self.store.download(far, call)

    def _is_hidden(self, job_id: str) -> bool:
        return time.monotonic() - self._new.get(job_id, float("-inf")) < self.knobs.hides_s


_SCHEDULED = frozenset(("submit", "jobs", "job", "metadata", "cancel", "nodes", "partitions"))


@contextmanager
def serving(server: Firecrest) -> Iterator[Firecrest]:
    """The server at a free port of this machine, in a thread."""
    config = uvicorn.Config(server.app(), host="127.0.0.1", port=0, log_level="error", lifespan="off")
    process = uvicorn.Server(config)
    thread = threading.Thread(target=process.run, daemon=True)
    thread.start()
    while not process.started:
        assert thread.is_alive()
        threading.Event().wait(0.01)
    port = process.servers[0].sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    try:
        yield server
    finally:
        process.should_exit = True
        thread.join()
