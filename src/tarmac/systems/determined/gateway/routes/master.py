"""The server itself: `/info`, `det master ...`. Listed in `application`."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tarmac.model.actor import Action
from tarmac.model.cluster import Packing, Policy, Pool
from tarmac.systems.determined.gateway.calls import Access, Call, Route, framed, time_of
from tarmac.systems.determined.gateway.gateway import VERSION
from tarmac.systems.determined.identity import uuid_of
from tarmac.systems.determined.reader import NAME
from tarmac.systems.determined.statuses import of_tarmac
from tarmac.systems.registry import read

LOOK_S = 0.5
"""Polling interval of the server's log for a follower."""

_LEAST = "entrypoint: 'true'\nsearcher: {name: single, metric: loss}\n"
"""A minimal configuration: the cluster supplies all other values."""

_ENTRY = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}) ([A-Z]+) (.*)")


def _info(call: Call) -> Any:
    service = call.gateway.service
    return {
        "version": VERSION,
        "cluster_id": uuid_of("home", str(service.home.root)),
        "cluster_name": "tarmac",
        "master_id": uuid_of("server", str(service.home.root), str(service.started_at)),
        "telemetry": {"enabled": False},
        "external_login_uri": "",
        "external_logout_uri": "",
        "branding": "determined",
        "rbacEnabled": False,
        "sso_providers": [],
    }


def _master(call: Call) -> Any:
    info = _info(call)
    return {
        "version": info["version"],
        "masterId": info["master_id"],
        "clusterId": info["cluster_id"],
        "clusterName": info["cluster_name"],
        "telemetryEnabled": False,
        "externalLoginUri": "",
        "externalLogoutUri": "",
        "branding": info["branding"],
        "rbacEnabled": False,
        "product": "PRODUCT_UNSPECIFIED",
        "featureSwitches": [],
        "userManagementEnabled": False,
        "strictJobQueueControl": False,
        "strictNtscEnabled": False,
        "hasCustomLogo": False,
        "ssoProviders": [],
        "clusterMessage": None,
    }


def _config(call: Call) -> Any:
    return {"config": _old_config(call)}


def _old_config(call: Call) -> Any:
    """The available parts of a master's configuration: address, storage, pools and scheduling."""
    reading = read(
        _LEAST, filename="", directory="/", dialect=NAME, dialects=call.gateway.service.reading.dialects
    )
    priority = of_tarmac(reading.spec.priority)
    pools = call.plane.pools(call.actor)
    first = pools[0] if pools else Pool(name="default", cluster="")
    return {
        "cluster_name": "tarmac",
        "host": call.gateway.url,
        "root": str(call.gateway.service.home.root),
        "checkpoint_storage": reading.spec.conventions.facts["config"]["checkpoint_storage"],
        "feature_switches": [],
        "launch_error": True,
        "resource_manager": {
            "type": "agent",
            "default_compute_resource_pool": first.name,
            "default_aux_resource_pool": first.name,
            "scheduler": _scheduler(first, priority),
        },
        "resource_pools": [
            {"pool_name": pool.name, "description": pool.cluster, "scheduler": _scheduler(pool, priority)}
            for pool in pools
        ],
    }


def _scheduler(pool: Pool, priority: int) -> dict[str, Any]:
    fitting = "best" if pool.packing is Packing.PACK else "worst"
    if pool.policy is Policy.FAIR_SHARE:
        return {"type": "fair_share", "fitting_policy": fitting}
    rules = {"preemption": pool.preemption, "default_priority": priority}
    return {"type": "priority", "fitting_policy": fitting, **rules}


def _logs(call: Call) -> StreamingResponse:
    """The lines of the server's log; a negative `offset` counts from the end."""
    offset, limit, follow = call.whole("offset"), call.whole("limit"), call.flag("follow") is True
    path = call.gateway.service.home.log

    async def body() -> AsyncIterator[bytes]:
        found = await run_in_threadpool(_entries, path)
        begin = max(len(found) + offset, 0) if offset < 0 else offset
        end = begin + limit if limit > 0 else None
        sent = len(found)
        yield _lines(found[begin:end])
        while follow and not call.gateway.service.changes.stopping:
            await asyncio.sleep(LOOK_S)
            if await call.request.is_disconnected():
                return
            found = await run_in_threadpool(_entries, path)
            yield _lines(found[sent if len(found) >= sent else 0 :])  # else: rotated
            sent = len(found)

    return StreamingResponse(body(), media_type="application/json")


def _lines(entries: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(framed({"logEntry": each}) for each in entries)


def _entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a log; lines that begin no entry belong to the one before."""
    found: list[dict[str, Any]] = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        match = _ENTRY.match(line)
        if match is None:
            if found:
                found[-1]["message"] += f"\n{line}"
            continue
        at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").astimezone().timestamp()
        stamp = time_of(at + int(match[2]) / 1000)
        level = f"LOG_LEVEL_{match[3]}"
        found.append({"id": len(found) + 1, "timestamp": stamp, "level": level, "message": match[4]})
    return found


ROUTES = (
    Route("GET", "/info", _info, Access.OPEN),
    Route("GET", "/api/v1/master", _master, Access.OPEN),
    Route("GET", "/api/v1/master/config", _config),
    Route("GET", "/config", _old_config),
    Route("GET", "/api/v1/master/logs", _logs, action=Action.MANAGE),
)
