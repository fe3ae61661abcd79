"""Requests made from the API's own description, with the token of each role (`make fuzz-api`)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from served import HELLO, Served, served
from tarmac.client import Client
from tarmac.model.actor import Action, ActorRole
from tarmac.model.people.account import AccountSettings
from tarmac.server.app import routes_of
from tarmac.server.http.openapi import openapi
from tarmac.server.settings import AddressSettings

PROGRAM = Path(__file__).resolve().parents[3] / ".venv-schemathesis/bin/st"

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        not PROGRAM.exists(), reason="Schemathesis is not installed; make fuzz-api installs it"
    ),
]

CALLERS = {"admin": 4, "member": 4, "viewer": 2, "scoped": 2, "expired": 1, "nobody": 1}
"""Each caller, and the number of requests to an operation."""

LEFT_OUT = [
    *("/api/v1/logout", "/api/v1/session", "/api/v1/account/password"),  # they end the token
    "/api/v1/server/stop",
    *("/api/v1/runs/{run}/sessions", "/api/v1/sessions/{session}"),  # their bodies are frames
]
NAMES = """[parameters]
"path.run" = ["hello", "%2e%2e"]
"path.experiment" = ["digits", ".."]
"path.project" = ["vision", "other"]
"path.user" = ["member", "*"]
"path.cluster" = "local"
"""
"""Values for parts of paths, beside what Schemathesis invents for all else."""

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def token_of(plane: Served, caller: str) -> str:
    """A token of a caller; the server has accounts, runs and a project."""
    owner: Client = plane.client()
    owner.set_user("ada")
    for role in ActorRole:
        owner.set_user(role, AccountSettings(role=role))
    owner.set_member("vision", "member", ActorRole.ADMIN)
    owner.submit(HELLO)
    plane.turn()
    plane.turn()
    if caller == "nobody":
        return "tarmac_unknown"
    user = caller if caller in list(ActorRole) else "admin"
    scopes = [Action.SUBMIT] if caller == "scoped" else None
    text = owner.add_token("test", user=user, scopes=scopes, lifetime_s=60.0).text
    plane.clock.advance(120 if caller == "expired" else 0)
    return text


@pytest.mark.parametrize("caller", CALLERS)
def test_every_answer_is_one_that_the_description_has(tmp_path: Path, caller: str) -> None:
    """N15: whatever is sent with whatever token, no answer is a 5xx, or of another form than described."""
    with served(tmp_path / "home", settings=AddressSettings(requests_per_minute=1_000_000)) as plane:
        (tmp_path / "schemathesis.toml").write_text(NAMES)
        offers = routes_of(plane.service()).offers
        (tmp_path / "api.json").write_text(json.dumps(openapi(offers, version="1")))
        command = [
            *(str(PROGRAM), "run", "api.json", "--url", f"http://127.0.0.1:{plane.tcp_port}"),
            *("--header", f"Authorization: Bearer {token_of(plane, caller)}", "--checks", CHECKS),
            *("--phases", "fuzzing", "--max-examples", str(CALLERS[caller]), "--seed", "1", "--no-color"),
            *("--continue-on-failure", "--request-timeout", "20", "--suppress-health-check", "all"),
            *(part for path in LEFT_OUT for part in ("--exclude-path", path)),
        ]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-2_000:]
