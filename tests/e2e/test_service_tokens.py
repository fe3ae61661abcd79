"""A service token inside an attempt and through the gateway, on a real server with accounts (I2, N15)."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from determined_calls import DeterminedCalls
from determined_experiments import SINGLE, create
from tarmac.client import Client
from tarmac.model.actor import Action
from tarmac.model.lifecycle import RunState
from tarmac.model.people.account import AccountSettings
from tarmac.model.progress import Outcome

pytestmark = pytest.mark.timeout(240)

LIMIT_S = 120.0
THROUGH_THE_CLIENT = """\
import os
from tarmac.client import Client
with Client(os.environ["TARMAC_URL"], token=os.environ["TARMAC_TOKEN"]) as client:
    made = client.submit("name: child\\ncommand: echo hello\\n")
    print("made", made.name, "of", client.run(made.id).user)
"""
THROUGH_THE_GATEWAY = """\
import base64, json, os, urllib.request
def ask(path, body=None):
    headers = {"Authorization": "Bearer " + os.environ["DET_USER_TOKEN"]}
    data = json.dumps(body).encode() if body is not None else None
    url = os.environ["DET_MASTER"] + path
    return json.load(urllib.request.urlopen(urllib.request.Request(url, data, headers)))
config = "name: grandchild\\nentrypoint: echo hello\\nsearcher: {name: single, metric: loss}\\n"
made = ask("/api/v1/experiments", {"config": config, "modelDefinition": []})["experiment"]
print("me", ask("/api/v1/me")["user"]["username"])
print("made", made["name"], "of", made["username"])
print("read", len(ask("/api/v1/experiments")["experiments"]))
"""


class Shared:
    """A server with accounts: olga is its admin, the service account nightly may submit."""

    def __init__(self, home: Path, ports: list[int]) -> None:
        self.client = Client(home=home)
        self.url, self.gateway = (f"http://127.0.0.1:{port}" for port in ports)
        self.gateway_port = ports[1]
        self.client.set_user("olga", AccountSettings(), password="the password of olga")
        self.client.set_user("nightly", AccountSettings(service=True))
        made = self.client.add_token("runs", user="nightly", scopes=(Action.SUBMIT,), lifetime_s=None)
        self.token, self.token_id = made.text, made.token.id

    def printed(self, run_id: str) -> str:
        """The output of a run, once it has ended."""
        self.client.wait(run_id, timeout_s=LIMIT_S)
        text = "".join(chunk.text for chunk in self.client.logs(run_id))
        run = self.client.run(run_id)
        assert (run.state, run.outcome) == (RunState.ENDED, Outcome.COMPLETED), text
        return text


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Shared]:
    found = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in found]
    for each in found:
        each.close()
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "settings.toml").write_text(
        f'[server]\nlisten = "127.0.0.1:{ports[0]}"\n[determined]\nlisten = "127.0.0.1:{ports[1]}"\n'
        "[[local]]\nslots = 4\n"
    )
    made = Shared(home, ports)
    try:
        yield made
    finally:
        made.client.stop_server()
        made.client.close()


def test_code_submits_and_reads_with_a_service_token(shared: Shared, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(THROUGH_THE_CLIENT)
    (tmp_path / "gateway.py").write_text(THROUGH_THE_GATEWAY)
    variables = {
        "TARMAC_URL": shared.url,
        "TARMAC_TOKEN": shared.token,
        "DET_MASTER": shared.gateway,
        "DET_USER_TOKEN": shared.token,
    }
    lines = "".join(f"  {name}: {value}\n" for name, value in variables.items())
    for script in ("client", "gateway"):
        command = f"[{sys.executable}, {tmp_path / script}.py]"
        made = shared.client.submit(f"name: {script}\nenv:\n{lines}command: {command}\n")
        text = shared.printed(made.id)
        assert " of nightly" in text, text
    assert "me nightly" in text
    assert shared.client.run("child").user == "nightly"
    assert shared.client.run("client").user != "nightly"


def test_an_experiment_keeps_the_token_that_it_sets(shared: Shared, tmp_path: Path) -> None:
    """Its own token for reports does not replace one in DET_USER_TOKEN."""
    (tmp_path / "gateway.py").write_text(THROUGH_THE_GATEWAY)
    config = (
        SINGLE.replace("python3 train.py", f"{sys.executable} {tmp_path / 'gateway.py'}")
        + f"environment: {{environment_variables: [DET_USER_TOKEN={shared.token}]}}\n"
    )
    calls = DeterminedCalls(shared.gateway_port, token=shared.token)
    create(calls, config)
    number = 1
    [trial] = calls.get(f"/api/v1/experiments/{number}/trials")[1]["trials"]
    [run] = [each for each in shared.client.runs().runs if each.user == "nightly"]
    text = shared.printed(run.id)
    assert ("made grandchild of nightly" in text, "read 2" in text) == (True, True), text
    assert trial["experimentId"] == number
    shared.client.revoke_token(shared.token_id)
    assert calls.get("/api/v1/experiments")[0] == 401
