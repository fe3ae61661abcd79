"""The server for tests answers the calls of a real firecREST as that one did."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from engine_harness import BOUND_S
from firecrest_harness import CLIENT, SECRET, FirecrestHarness
from firecrest_server import EXCHANGES
from slurm_clusters import Missing, running_slurm

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("firecrest")]

HOME = "/home/alice"
STARTS = ("PENDING", "RUNNING")
"""States that a job is only in for a moment."""


def exchanges(home: Path) -> Iterator[dict[str, Any]]:
    """The recorded calls, for a home of this test."""
    for line in EXCHANGES.read_text().splitlines():
        quoted = str(home).replace("/", "%2F")
        yield json.loads(line.replace(HOME, str(home)).replace(HOME.replace("/", "%2F"), quoted))


def differences(recorded: Any, served: Any, where: str = "") -> list[str]:
    """Where an answer has other keys, or values of another type; a value may be missing for now."""
    if recorded is None or served is None:
        return []
    if isinstance(recorded, dict) and isinstance(served, dict):
        if recorded.keys() != served.keys():
            return [f"{where}: {sorted(recorded.keys() ^ served.keys())}"]
        return [
            each for key in recorded for each in differences(recorded[key], served[key], f"{where}.{key}")
        ]
    if isinstance(recorded, list) and isinstance(served, list):
        return differences(recorded[0], served[0], f"{where}[0]") if recorded and served else []
    numbers = isinstance(recorded, int | float) and isinstance(served, int | float)
    return [] if numbers or type(recorded) is type(served) else [f"{where}: {recorded!r} and {served!r}"]


@pytest.fixture
def firecrest(tmp_path: Path) -> Iterator[FirecrestHarness]:
    """Over a Slurm like the one of the recording."""
    lines = "PartitionName=debug Nodes=n1 State=UP"
    try:
        with running_slurm(
            tmp_path / "slurm", cpus_per_node=4, gpus="a100:2", lines=lines, accounting=True
        ) as variables:
            for what in (("account", "zzz"), ("user", "root", "account=zzz")):  # the recorded one took any
                argv = ["sacctmgr", "--immediate", "add", *what]
                subprocess.run(argv, env={**os.environ, **variables}, check=True, timeout=60)
            made = FirecrestHarness(tmp_path / "far", variables)
            yield made
            made.close()
    except Missing as missing:
        pytest.skip(str(missing))


def test_all_recorded_exchanges_are_served_as_recorded(firecrest: FirecrestHarness) -> None:
    home, server = firecrest.near, firecrest.server
    form = {"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET}
    token = httpx.post(server.token_url, data=form).json()["access_token"]
    jobs: dict[str, str] = {}
    found = []
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}) as client:
        for number, call in enumerate(exchanges(home)):
            url = re.sub(r"(?<=/jobs/)[0-9]{1,2}(?=[/?]|$)", lambda match: jobs[match[0]], call["url"])
            body = call["req"] if isinstance(call["req"], str) else json.dumps(call["req"])
            headers = {"Content-Type": call["req_content_type"]} if call["req_content_type"] else {}
            recorded = call["resp"]
            deadline = time.monotonic() + BOUND_S
            while True:
                answer = client.request(
                    call["method"], url, content=body.encode(), headers=headers, timeout=60
                )
                is_json = answer.headers.get("content-type") == "application/json"
                served = answer.json() if is_json and answer.content else answer.text
                if answer.status_code == call["status"] and settled(recorded, served):
                    break
                same = answer.status_code == call["status"]
                assert same or call["method"] == "GET", (number, url, served)
                assert time.monotonic() < deadline, (number, recorded, served)
                Event().wait(0.2)
            if call["method"] == "POST" and url.endswith("/jobs") and call["status"] == 201:
                jobs[recorded["jobId"]] = served["jobId"]
            if call["status"] >= 400:
                assert served["message"] == recorded["message"], number
            found += [f"{number} {call['method']} {url}{each}" for each in differences(recorded, served)]
    assert number == 51
    assert found == []


def settled(recorded: Any, served: Any) -> bool:
    """Whether a job is in the recorded state, if that one lasts."""
    jobs = recorded.get("jobs", ()) if isinstance(recorded, dict) else ()
    if len(jobs) != 1 or "status" not in jobs[0]:
        return True
    then, now = (answer["jobs"][0]["status"]["state"].split()[0] for answer in (recorded, served))
    return then in STARTS or then == now
