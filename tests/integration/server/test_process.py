"""Servers as processes: started on demand, one per home, leaving without touching a run, coming back."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from processes import PATIENCE_S, Gate, client_of, end_server, ended, home_at, run_server
from tarmac.client import Client
from tarmac.client.follow import Message
from tarmac.model.errors import InvalidInput, TarmacError, Unavailable
from tarmac.model.home import ALREADY_SERVED, Home

WAITING = "name: waiting\ncommand: |\n  echo before\n  read _ < $GATE\n  echo after\n"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_at(tmp_path / "home") as made:
        yield made


def test_the_first_request_starts_a_server_that_outlives_its_client(home: Home) -> None:
    with Client(home=home.root) as client:
        run = client.submit("name: hello\ncommand: echo hello from $TARMAC_RUN_NAME\n")
        messages = list(client.follow(run.id))
        pid = client.version().pid
    assert _text(messages) == "hello from hello\n"
    assert messages[-1].event == "end"
    assert messages[-1].data.outcome == "completed"
    assert "arning" not in home.log.read_text(), "libraries have nothing to say to its user"
    with Client(home=home.root) as another:
        assert another.version().pid == pid
        assert another.run("hello").outcome == "completed"


def test_the_home_is_closed_to_others(home: Home) -> None:
    home.root.mkdir(mode=0o755)
    with Client(home=home.root) as client:
        client.version()
    for path in (home.root, home.socket, home.lock, home.log):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or path == home.log
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700


def test_clients_that_come_at_once_meet_one_server(home: Home) -> None:
    pids: list[int] = []

    def ask() -> None:
        with Client(home=home.root) as client:
            pids.append(client.version().pid)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(pids) == 4
    assert len(set(pids)) == 1


def test_a_second_server_on_a_home_says_so_and_ends(home: Home) -> None:
    with client_of(home.root) as client:
        pid = client.version().pid
        second = run_server(home.root)
        assert second.returncode == ALREADY_SERVED
        assert f"process {pid}) already serves" in second.stderr
        assert client.version().pid == pid


def test_a_stale_socket_is_replaced(home: Home) -> None:
    home.root.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(home.socket))
    with Client(home=home.root) as client:
        assert client.version().home == str(home.root)


def test_a_home_may_have_a_long_path(tmp_path: Path) -> None:
    """A unix socket address holds 107 bytes; a home may lie deeper."""
    deep = tmp_path / ("d" * 120) / "home"
    with home_at(deep) as home, client_of(home.root) as client:
        run = client.submit("name: deep\ncommand: echo deep\n")
        assert client.wait(run.id, timeout_s=PATIENCE_S).outcome == "completed"


def test_a_follower_and_its_run_survive_a_server_that_is_shot(home: Home, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with client_of(home.root) as client:
        run = client.submit(WAITING, overrides={"env": {"GATE": str(gate.path)}})
        following = client.follow(run.id)
        seen = [next(message for message in following if message.event == "log")]
        shot = end_server(client)
        gate.open()
        seen += list(following)
        assert client.version().pid != shot, "connecting again started another server"
        assert len(client.attempts(run.id)) == 1, "the run was adopted, not started again"
    assert _text(seen) == "before\nafter\n"
    assert "notice" in [message.event for message in seen]
    assert seen[-1].data.outcome == "completed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_asked_to_end_leaves_its_runs_alone(home: Home, tmp_path: Path, number: int) -> None:
    gate = Gate(tmp_path / "gate")
    with client_of(home.root) as client:
        run = client.submit(WAITING, overrides={"env": {"GATE": str(gate.path)}})
        next(message for message in client.follow(run.id) if message.event == "log")
        end_server(client, number)
        assert not home.socket.exists()
        gate.open()
        ended_run = client.wait(run.id, timeout_s=PATIENCE_S)
        assert ended_run.outcome == "completed"
        assert [event.event for event in client.events(run.id)].count("placed") == 1


def test_a_follower_waits_when_the_server_is_stopped_on_purpose(home: Home, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with client_of(home.root) as client:
        run = client.submit(WAITING, overrides={"env": {"GATE": str(gate.path)}})
        following = client.follow(run.id)
        next(message for message in following if message.event == "log")
        pid = client.version().pid
        client.stop_server()
        notice = next(message for message in following if message.event == "notice")
        assert "was stopped" in notice.data.text
        assert ended(pid)
        with Client(home=home.root, start=False) as shy, pytest.raises(Unavailable):
            shy.version()
        assert client.version().pid != pid
        gate.open()
        assert _text(following) == "after\n"


def test_wrong_settings_are_said_by_the_client_that_started_the_server(home: Home) -> None:
    home.root.mkdir(mode=0o700)
    home.settings.write_text('[server]\nlissten = "127.0.0.1:1"\n')
    with Client(home=home.root) as client, pytest.raises(TarmacError) as refused:
        client.version()
    assert "did you mean server.listen?" in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_settings_describe_a_lasting_cluster(home: Home) -> None:
    home.root.mkdir(mode=0o700)
    home.settings.write_text(
        '[[local]]\nnodes = 2\nslots = 3\nshard = "a"\n\n[[local]]\nslots = 1\npool = "small"\n'
    )
    with client_of(home.root) as client:
        nodes = client.nodes()
    assert [(node.slots, node.pool, node.shard) for node in nodes] == [
        (3, "default", "a"),
        (3, "default", "a"),
        (1, "small", None),
    ]


def test_an_address_that_others_can_reach_needs_tls(tmp_path: Path) -> None:
    """N15: without TLS no other address than loopback is opened."""
    for address in ("0.0.0.0:8400", "10.0.0.1:8400", "[::]:8400"):
        refused = run_server(tmp_path / "home", "--listen", address)
        assert refused.returncode == InvalidInput.exit_code
        assert "can be reached by others, who could read tokens without TLS" in refused.stderr
        assert 'tls = "lab"' in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_loopback_listener_wants_the_token_of_the_home(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    home.root.mkdir(mode=0o700)
    home.settings.write_text(f'[server]\nlisten = "127.0.0.1:{port}"\n')
    with Client(f"http://127.0.0.1:{port}", home=home.root) as remote, client_of(home.root) as local:
        pid = local.version().pid
        with Client(f"http://127.0.0.1:{port}", home=home.root) as knowing:
            assert knowing.version().pid == pid
        assert stat.S_IMODE(home.token.stat().st_mode) == 0o600
        with pytest.raises(TarmacError, match="wants a token"):
            remote.version()
        run = local.submit("name: pip\ncommand: command -v pip\n")
        local.wait(run.id, timeout_s=PATIENCE_S)
        (found,) = local.logs(run.id)
        assert Path(found.text).is_relative_to(home.root), "packages of its own: others may use this server"


def test_a_home_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        Client(home=tmp_path / "file" / "home") as client,
        pytest.raises(TarmacError, match="cannot be used"),
    ):
        client.version()


def test_the_server_has_no_terminal_and_its_own_session(home: Home) -> None:
    with Client(home=home.root) as client:
        pid = client.version().pid
        assert os.getsid(pid) == pid
        assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
        assert Path(f"/proc/{pid}/fd/2").readlink() == home.log
        assert Path(f"/proc/{pid}/exe").resolve() == Path(sys.executable).resolve()


def _text(messages: Iterable[Message]) -> str:
    return "".join(message.data.text for message in messages if message.event == "log")


def test_a_changed_setting_of_the_local_cluster_counts_from_the_next_start(home: Home) -> None:
    """I11, I12: rules of pools and shapes of nodes are settings."""
    home.root.mkdir(mode=0o700)
    group = '[[local]]\nnodes = 2\nslots = 6\nslot_type = "RTX3090"\ncpus = 8\nmemory = "4GiB"\n'
    home.settings.write_text(group + '[pools.default]\nturn = "5s"\npreemption = true\n')
    with client_of(home.root) as client:
        local = client.cluster("local")
        (pool,) = local.pools
        assert (pool.turn_s, pool.preemption, pool.policy) == (5.0, True, "priority")
        (kind,) = local.node_kinds
        assert (kind.nodes, kind.slots_each, kind.slot_type) == (2, 6, "rtx3090")
        assert (kind.cpus_each, kind.memory_bytes_each) == (8.0, 4 * 2**30)
        home.settings.write_text(group + '[pools.default]\nturn = "7s"\n')
        assert client.cluster("local").pools[0].turn_s == 5.0
        end_server(client, signal.SIGTERM)
    with client_of(home.root) as client:
        assert client.cluster("local").pools[0].turn_s == 7.0


def test_a_server_says_where_settings_and_an_added_cluster_call_two_nodes_alike(home: Home) -> None:
    with client_of(home.root) as client:
        client.add_cluster("name: b\nnodes: [{slots: 1, hostnames: [a]}]")
        end_server(client, signal.SIGTERM)
    home.settings.write_text('[[local]]\nslots = 1\nhostnames = ["a.b"]\n')
    with (
        Client(home=home.root) as client,
        pytest.raises(TarmacError, match=r"two nodes would be called 'a\.b'"),
    ):
        client.version()


def test_a_server_that_a_signal_stopped_is_not_waited_for(home: Home) -> None:
    with client_of(home.root) as client:
        pid = client.version().pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(Unavailable, match=f"process {pid}. was stopped by a signal") as stopped:
                client.runs()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert stopped.value.hint is not None
        assert f"kill -CONT {pid}" in stopped.value.hint
        assert client.runs().runs == []


def test_a_start_that_fails_says_its_own_errors_alone(home: Home) -> None:
    home.root.mkdir(mode=0o700)
    home.settings.write_text("[first]\n")
    with Client(home=home.root) as client, pytest.raises(TarmacError, match="first is no setting"):
        client.version()
    home.settings.write_text("[second]\n")
    with Client(home=home.root) as client, pytest.raises(TarmacError) as refused:
        client.version()
    assert "second is no setting" in str(refused.value)
    assert "first" not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_nothing_is_written_into_the_home_of_another(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    os.chown(foreign, 65534, 65534)
    with Client(home=foreign) as client, pytest.raises(TarmacError, match="belongs to another user"):
        client.version()
    assert list(foreign.iterdir()) == []


def test_a_damaged_database_is_said_at_start(home: Home) -> None:
    with client_of(home.root) as client:
        client.version()
        end_server(client, signal.SIGTERM)
    whole = home.database.read_bytes()
    home.database.write_bytes(whole[: -3 * 4096] + b"\xff" * 3 * 4096)
    refused = run_server(home.root)
    home.database.write_bytes(whole)
    assert refused.returncode == TarmacError.exit_code
    assert f"the database {home.database} is damaged" in refused.stderr
    assert "bring back a copy" in refused.stderr
    assert "Traceback" not in refused.stderr
