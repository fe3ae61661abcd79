"""Calls to a tracking server of MLflow. Used by `tracking`; the server of tarmac has no MLflow installed."""

import http.client
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from tarmac.model.errors import InvalidInput
from tarmac.model.notification import Failure
from tarmac.server.notifying.webhooks import connected

LIMIT_S = 10.0
"""Maximum time for a call."""

MOST_METRICS = 1000
"""The most metrics that MLflow takes in one call."""

FINAL = frozenset({400, 404, 405, 410, 422})
"""Statuses after which the same call is useless; a token (401, 403) may be renewed."""

_MOST_BYTES = 1 << 20
_SHOWN = 200
_MISSING = 404


class CallFailed(Exception):
    """A call that a tracking server did not answer, or refused; `missing`: it does not know the object."""

    def __init__(self, reason: str, *, final: bool = False, missing: bool = False) -> None:
        super().__init__(reason)
        self.failure = Failure(reason=reason, final=final)
        self.missing = missing


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingServer:
    """A tracking server, as one run's variables name it. Every call raises CallFailed."""

    uri: str
    authorization: str | None
    private_addresses: bool

    def experiment(self, name: str, *, make: bool) -> str | None:
        """The id of the experiment with this name; with `make`, one that does not exist is made."""
        try:
            found = self._call("experiments/get-by-name", {"experiment_name": name}, method="GET")
        except CallFailed as problem:
            if not problem.missing:
                raise
            made = self._call("experiments/create", {"name": name}) if make else None
            return self._text(made, "experiment_id") if made is not None else None
        return self._text(found, "experiment", "experiment_id")

    def find_run(self, experiment: str, tag: str, value: str) -> str | None:
        """The id of the run with this tag; None if there is none."""
        fields = {"experiment_ids": [experiment], "filter": f"tags.`{tag}` = '{value}'", "max_results": 1}
        found = self._call("runs/search", fields).get("runs") or [None]
        return None if found[0] is None else self._text(found[0], "info", "run_id")

    def create_run(self, experiment: str, *, name: str, start_ms: int, tags: Mapping[str, str]) -> str:
        """Make a run; its id."""
        fields = {"experiment_id": experiment, "run_name": name, "start_time": start_ms, "tags": _pairs(tags)}
        return self._text(self._call("runs/create", fields), "run", "info", "run_id")

    def log(
        self,
        run_id: str,
        *,
        metrics: Sequence[Mapping[str, Any]] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add metrics, parameters and tags to a run; the same metric twice is one."""
        for begin in range(0, len(metrics) or 1, MOST_METRICS):
            fields = {"metrics": metrics[begin : begin + MOST_METRICS], "params": _pairs(params or {})}
            self._call("runs/log-batch", {"run_id": run_id, **fields, "tags": _pairs(tags or {})})

    def update_run(self, run_id: str, status: str, *, end_ms: int | None) -> None:
        """Set the status of a run, and the time of its end."""
        end = {} if end_ms is None else {"end_time": end_ms}
        self._call("runs/update", {"run_id": run_id, "status": status, **end})

    def _call(self, endpoint: str, fields: Mapping[str, Any], *, method: str = "POST") -> dict[str, Any]:
        parts = urlsplit(self.uri)
        path = f"{parts.path.rstrip('/')}/api/2.0/mlflow/{endpoint}"
        headers = {"Content-Type": "application/json", "User-Agent": "tarmac"}
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        body = None if method == "GET" else json.dumps(fields).encode()
        if body is None:
            path += f"?{urlencode(fields)}"
        try:
            port, private = parts.port, self.private_addresses
            with connected(parts, port, limit_s=LIMIT_S, private_addresses=private) as connection:
                connection.request(method, path, body=body, headers=headers)
                answer = connection.getresponse()
                content = answer.read(_MOST_BYTES)
        except InvalidInput as refusal:
            raise CallFailed(str(refusal), final=True) from None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else None
            raise CallFailed(f"{parts.hostname}: {reason or type(problem).__name__}") from None
        found: Any = None
        with suppress(ValueError):
            found = json.loads(content)
        if answer.status == http.client.OK and isinstance(found, dict):
            return found
        words = found.get("message") if isinstance(found, dict) else content.decode(errors="replace")
        raise CallFailed(
            f"{parts.hostname} answered {answer.status} to {endpoint}: {str(words)[:_SHOWN].strip()}",
            final=answer.status in FINAL,
            missing=answer.status == _MISSING,
        )

    def _text(self, answer: Any, *names: str) -> str:
        """The text at these names of an answer."""
        for name in names:
            answer = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(answer, str):
            raise CallFailed(f"{urlsplit(self.uri).hostname} does not answer as MLflow does", final=True)
        return answer


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]
