"""Which home serves a cluster: homes as processes that share a database, are moved, copied, taken over."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from processes import PATIENCE_S, Gate, client_of, end_server, home_at, run_server
from tarmac.client import Client
from tarmac.model.errors import Refused, TarmacError

WAITING = "name: waiting\nslots: 1\ncommand: |\n  echo started\n  read _ < $GATE\n"
WAITING_FOR_FILE = WAITING.replace("read _ < $GATE", "until [ -e $GATE ]; do sleep 0.05; done")


def settings(home: Path, database: Path, *, cluster: str = "local") -> Path:
    home.mkdir(mode=0o700)
    (home / "settings.toml").write_text(
        f'[database]\nurl = "sqlite:///{database}"\n[server]\ncluster = "{cluster}"\n'
        f'[[local]]\nslots = 1\nhostnames = ["{home.name}"]\n'
    )
    return home


def test_a_second_home_may_not_serve_a_cluster_that_is_served(tmp_path: Path) -> None:
    """Else both would start its runs."""
    one, two = (settings(tmp_path / name, tmp_path / "shared.db") for name in ("one", "two"))
    with home_at(one), client_of(one) as client:
        client.version()
        for moment in ("while it is served", "after its server was shot"):
            refused = run_server(two)
            assert refused.returncode == Refused.exit_code, moment
            assert f"the home {one} on" in refused.stderr
            assert "serves the cluster local of this database" in refused.stderr
            assert "tarmac server start --take-over" in refused.stderr
            assert "Traceback" not in refused.stderr
            end_server(client)


def test_servers_with_a_cluster_each_share_a_database(tmp_path: Path) -> None:
    one = settings(tmp_path / "one", tmp_path / "shared.db", cluster="a")
    two = settings(tmp_path / "two", tmp_path / "shared.db", cluster="b")
    gate = Gate(tmp_path / "gate")
    with home_at(one), home_at(two), client_of(one) as first, client_of(two) as second:
        run = first.submit(WAITING, overrides={"env": {"GATE": str(gate.path)}})
        next(message for message in first.follow(run.id) if message.event == "log")
        end_server(first)
        other = second.submit("name: other\nslots: 1\ncommand: echo there\n")
        assert second.wait(other.id, timeout_s=PATIENCE_S).outcome == "completed"
        assert [found.cluster for found in second.attempts(other.id)] == ["b"]
        assert f"it is looked after by the home {one} on" in second.why(run.id).headline
        assert [found.outcome for found in second.attempts(run.id)] == [None], "it goes on"
        with pytest.raises(Refused, match=f"logs and reports of waiting .* are kept by the home {one} on"):
            list(second.logs(run.id))
        with pytest.raises(Refused, match=f"wants cluster a, which the home {one} on"):
            second.submit("name: lost\ncluster: a\nslots: 1\ncommand: echo\n")
        with pytest.raises(TarmacError, match="that name is taken"):
            second.add_cluster("name: a\nnodes: [{slots: 1}]")
        gate.open()
        assert first.wait(run.id, timeout_s=PATIENCE_S).outcome == "completed"
        assert len(first.attempts(run.id)) == 1


def test_a_cluster_is_taken_over_on_purpose(tmp_path: Path) -> None:
    one, two = (settings(tmp_path / name, tmp_path / "shared.db") for name in ("one", "two"))
    gate = tmp_path / "gate"  # a file: the worker that was given up for lost waits there, too
    with home_at(two), Client(home=two, server_options=("--take-over",)) as after:
        with client_of(one) as before:
            run = before.submit(WAITING_FOR_FILE, overrides={"env": {"GATE": str(gate)}})
            next(message for message in before.follow(run.id) if message.event == "log")
            end_server(before)
        next(message for message in after.follow(run.id) if message.event == "log")
        assert run_server(one).returncode == Refused.exit_code, "the home that was replaced stays out"
        gate.touch()
        assert after.wait(run.id, timeout_s=PATIENCE_S).outcome == "completed"
        lost, again = after.attempts(run.id)
        assert (lost.outcome, lost.cause.code) == ("lost", "node_lost")
        assert again.outcome == "completed"


def test_a_home_that_was_moved_serves_on_and_a_copy_of_it_does_not(tmp_path: Path) -> None:
    one = settings(tmp_path / "one", tmp_path / "shared.db")
    with client_of(one) as client:
        run = client.submit("name: hello\nslots: 1\ncommand: echo hello\n")
        client.wait(run.id, timeout_s=PATIENCE_S)
        end_server(client)
    moved = one.rename(tmp_path / "moved")
    with home_at(moved), client_of(moved) as client:
        assert client.run(run.id).outcome == "completed"
        end_server(client)
        copy = tmp_path / "copy"
        shutil.copytree(moved, copy, ignore=shutil.ignore_patterns("*.sock", "notify", "runs"))
        refused = run_server(copy)
        assert refused.returncode == Refused.exit_code
        assert f"{copy} is a copy of the home {moved}" in refused.stderr


def test_an_emptied_database_beside_full_runs_is_no_new_history(tmp_path: Path) -> None:
    with home_at(tmp_path / "home") as home, client_of(home.root) as client:
        run = client.submit("name: hello\nslots: 1\ncommand: echo hello\n")
        client.wait(run.id, timeout_s=PATIENCE_S)
        end_server(client)
        for path in home.root.glob("tarmac.db*"):
            path.unlink()
        refused = run_server(home.root)
        assert refused.returncode == Refused.exit_code
        assert "the database knows no run" in refused.stderr
        home.runs.rename(home.root / "runs.old")
        assert client.runs().runs == []
