"""A tracking server of MLflow in memory, as far as runs of tarmac need one, with knobs for its faults.

Metrics have the key of MLflow's own table: an equal one is stored once.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Metric = tuple[str, int, int, str]
"""A metric: name, step, time in milliseconds, value."""


class MlflowServer:
    """Experiments and runs by id. `refusals` are statuses of the next calls; `drop` loses their answers."""

    def __init__(self) -> None:
        self.experiments = {"Default": "0"}
        self.runs: dict[str, dict[str, Any]] = {}
        self.metrics: dict[str, list[Metric]] = {}
        self.calls: list[str] = []
        self.logins: set[str | None] = set()
        self.refusals: list[int] = []
        self.down = False
        self.drop: set[str] = set()
        self.url = ""

    def made_for(self, run_id: str) -> str:
        """The id of the run with the tag of a run of tarmac."""
        [found] = [key for key, run in self.runs.items() if run["tags"].get("tarmac.run") == run_id]
        return found

    def answer(self, endpoint: str, fields: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if endpoint == "experiments/get-by-name":
            found = self.experiments.get(fields["experiment_name"])
            return (200, {"experiment": {"experiment_id": found}}) if found else (404, {"message": "no such"})
        if endpoint == "experiments/create":
            self.experiments[fields["name"]] = made = str(len(self.experiments))
            return 200, {"experiment_id": made}
        if endpoint == "runs/search":
            tag, value = re.fullmatch(r"tags\.`(.*)` = '(.*)'", fields["filter"]).groups()  # type: ignore[union-attr]
            found = [
                {"info": {"run_id": key}}
                for key, run in self.runs.items()
                if run["tags"].get(tag) == value and run["experiment_id"] in fields["experiment_ids"]
            ]
            return 200, {"runs": found} if found else {}
        if endpoint == "runs/create":
            made = f"m{len(self.runs) + 1}"
            self.runs[made] = {**fields, "tags": pairs(fields["tags"]), "params": {}, "status": "RUNNING"}
            return 200, {"run": {"info": {"run_id": made}}}
        run = self.runs.get(fields["run_id"])
        if run is None:
            return 404, {"message": f"Run with id={fields['run_id']} not found"}
        if endpoint == "runs/update":
            run |= fields
        else:
            run["params"] |= pairs(fields["params"])
            run["tags"] |= pairs(fields["tags"])
            kept = self.metrics.setdefault(fields["run_id"], [])
            new = [
                (each["key"], each["step"], each["timestamp"], str(each["value"]))
                for each in fields["metrics"]
            ]
            kept += [each for each in new if each not in kept]
        return 200, {}


def pairs(listed: list[dict[str, str]]) -> dict[str, str]:
    return {each["key"]: each["value"] for each in listed}


@contextmanager
def tracking_server() -> Iterator[MlflowServer]:
    made = MlflowServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()})

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, fields: dict[str, Any]) -> None:
            base, _, endpoint = urlsplit(self.path).path.partition("/api/2.0/mlflow/")
            made.calls.append(endpoint)
            made.logins.add(self.headers["Authorization"])
            if made.down:
                return
            if made.refusals:
                status, answer = made.refusals.pop(0), {"message": "refused for a test"}
            elif base != "/base":
                status, answer = 404, {"detail": "not here"}
            else:
                status, answer = made.answer(endpoint, fields)
            if endpoint in made.drop:
                made.drop.remove(endpoint)
                return
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket.setblocking(False)  # a client that has left in between must not keep accept waiting
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}/base"
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
