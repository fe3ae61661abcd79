"""Answers of the API for tests of what shows them: each has the named fields, and plain ones for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tarmac import api
from tarmac.model.progress import Event, Share
from tarmac.model.summary import RunSummary

_SUMMARY = {
    "id": "r1",
    "name": "hello",
    "project": "default",
    "user": "me",
    "dialect": "native",
    "state": "queued",
    "outcome": None,
    "mode": "batch",
    "priority": 0,
    "slots": 1,
    "attempt": 0,
    "cluster": None,
    "pool": None,
    "created_at": 0.0,
    "started_at": None,
    "ended_at": None,
    "message": None,
    "cause_code": None,
    "preemptions": 0,
    "turns": 0,
    "max_turns": None,
    "system": "native",
    "slot_type": None,
    "image": None,
}
_RUN: dict[str, Any] = {
    **_SUMMARY,
    "weight": 1.0,
    "retry_at": None,
    "cycle_report": None,
    "exit_status": None,
    "spec": {},
    "source": "",
    "warnings": [],
    "labels": {},
}
_ATTEMPT = {
    "number": 1,
    "state": "running",
    "engine": "local",
    "created_at": 0.0,
    "cluster": "local",
    "nodes": [],
    "placements": [],
    "slot_types": [],
    "granted_at": None,
    "lost": None,
    "directory": None,
    "workers": [],
    "notices": [],
    "utilization": [],
}
_CHUNK = {
    "attempt": 1,
    "role": "main",
    "replica": 0,
    "worker": 0,
    "rank": None,
    "node": "a",
    "offset": 0,
    "next": 0,
    "text": "",
    "at": None,
}


def a_run(fields: Mapping[str, Any]) -> api.Run:
    """A run; its cause needs no code."""
    return msgspec.convert({**_RUN, **_whole(fields)}, api.Run)


def a_summary(fields: Mapping[str, Any]) -> RunSummary:
    """A line of the list."""
    return msgspec.convert({**_SUMMARY, **fields}, RunSummary)


def a_status(fields: Mapping[str, Any]) -> api.RunStatus:
    """A state message of the stream."""
    return msgspec.convert({**_SUMMARY, "cause": None, **_whole(fields)}, api.RunStatus)


def an_attempt(fields: Mapping[str, Any]) -> api.Attempt:
    """An attempt."""
    placements = [{"released_at": None, **each} for each in fields.get("placements", ())]
    return msgspec.convert({**_ATTEMPT, **_whole(fields), "placements": placements}, api.Attempt)


def a_chunk(fields: Mapping[str, Any]) -> api.LogChunk:
    """A piece of a log."""
    return msgspec.convert({**_CHUNK, **fields}, api.LogChunk)


def a_report(fields: Mapping[str, Any]) -> api.Report:
    """A report of a worker."""
    usual = {"at": 0.0, "attempt": 1, "node": "a", "metrics": {}, "progress": None, "step": None}
    return msgspec.convert({**usual, **{k: v for k, v in fields.items() if v is not None}}, api.Report)


def a_notice(fields: Mapping[str, Any]) -> api.StreamNotice:
    """A notice in a stream."""
    return msgspec.convert({"text": "", **fields}, api.StreamNotice)


def an_event(fields: Mapping[str, Any]) -> Event:
    """An event of a run."""
    usual = {"id": 1, "seq": 1, "run_id": "r1", "at": 0.0, "event": "started", "state": "running"}
    return msgspec.convert({**usual, **fields}, Event)


def a_share(fields: Mapping[str, Any]) -> Share:
    """The promise to an interruptible run."""
    return msgspec.convert({"period_at": 0.0, "allotted_s": 0.0, "rank": 0, **fields}, Share)


def a_worker(fields: Mapping[str, Any]) -> tuple[str, int, int]:
    """A worker as views name it."""
    return fields["role"], fields["replica"], fields["index"]


def _whole(fields: Mapping[str, Any]) -> dict[str, Any]:
    cause = fields.get("cause")
    return {**fields, "cause": {"code": "exit_code", "message": "", **cause} if cause else None}
