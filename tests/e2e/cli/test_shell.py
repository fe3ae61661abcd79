"""Shells, notebooks, ports and attaching, as a person uses them."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

from shell import LIMIT_S, Screen, Shell
from terminals import install_lab, try_notebook, try_own_shell

ECHO = """\
import socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.read()[::-1])
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
server = Server(("127.0.0.1", 0), Echo)
print("port", server.server_address[1], flush=True)
server.serve_forever()
"""


def test_a_shell_in_a_run_of_its_own_ends_with_it(settled: Shell) -> None:
    try_own_shell(settled)


def test_a_shell_whose_person_is_gone_gives_its_slots_back(settled: Shell) -> None:
    with Screen(settled, "shell", "--slots", "1", variables={"SHELL": "/bin/sh"}) as screen:
        run = screen.wait_for(r"shell is run (\w+)")[1]
        screen.wait_for(r"[#$] ")
        screen.process.kill()
    settled.tarmac("wait", run, code=0)


def test_who_does_not_wait_for_a_shell_ends_its_run(settled: Shell) -> None:
    slots = sum(node["slots"] for node in settled.json("nodes")["nodes"])
    full = settled.tarmac("run", "-d", "--slots", str(slots), "--", "sleep", "600", code=0).stdout.strip()
    settled.wait_until(full, "running")
    with Screen(settled, "shell", "--slots", "1") as screen:
        run = screen.wait_for(r"shell is run (\w+)")[1]
        screen.wait_for("queued: it waits for 1 slot")
        screen.press("\x03")
        assert screen.end() == 130
    assert settled.json("show", run)["run"]["outcome"] == "stopped"
    settled.tarmac("stop", "--wait", full, code=0)


def test_a_shell_says_what_it_needs(settled: Shell) -> None:
    assert "Name a RUN, or give --slots" in settled.tarmac("shell", code=2).stderr
    assert "a RUN has its slots already" in settled.tarmac("shell", "x", "--slots", "1", code=2).stderr
    assert "standard input is none" in settled.tarmac("shell", "--slots", "1", code=2).stderr


def test_a_notebook_is_reached_from_this_machine_and_ends_with_ctrl_c(settled: Shell, tmp_path: Path) -> None:
    with Screen(settled, "jupyter", variables={"PATH": install_lab(tmp_path)}) as screen:
        try_notebook(settled, screen)


def test_without_jupyter_it_says_what_to_install(settled: Shell) -> None:
    result = settled.tarmac("jupyter", "--env", "PATH=/usr/bin:/bin", code=127)
    assert "pip install jupyterlab" in result.stderr


def test_a_notebook_at_a_port_in_use_is_refused_before_its_run_begins(settled: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        result = settled.tarmac("jupyter", "--port", str(taken), code=1)
    assert f"port {taken} of this machine cannot be listened at" in result.stderr
    assert "give another as --port" in result.stderr
    assert "is run" not in result.stderr


def test_a_port_takes_many_connections_until_the_run_ends(settled: Shell) -> None:
    settled.write("echo.py", ECHO)
    run = settled.tarmac("run", "-d", "--", sys.executable, "echo.py", code=0).stdout.strip()
    settled.until("logs", run, said="port")
    port = settled.tarmac("logs", run).stdout.split()[1]
    with settled.start("port-forward", run, f"0:{port}") as forward:
        assert forward.stderr is not None
        local = re.search(r"http://127.0.0.1:(\d+) leads to", forward.stderr.readline())
        assert local is not None
        connections = [socket.create_connection(("127.0.0.1", int(local[1])), LIMIT_S) for _ in range(3)]
        for number, connection in enumerate(connections):
            connection.sendall(f"{number}{'x' * 100_000}".encode())
        for number, connection in enumerate(connections):
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as answer:
                assert answer.read() == f"{'x' * 100_000}{number}".encode()
            connection.close()
        settled.tarmac("stop", run, code=0)
        assert forward.wait(LIMIT_S) == 0


def test_a_port_where_nothing_listens_is_said_and_one_that_is_no_port_refused(settled: Shell) -> None:
    run = settled.tarmac("run", "-d", "--", "sleep", "600", code=0).stdout.strip()
    settled.wait_until(run, "running")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
        taken = settled.tarmac("port-forward", run, f"{free}:80", code=1).stderr
        assert f"port {free} of this machine cannot be listened at" in taken
    with settled.start("port-forward", run, f"0:{free}") as forward:
        assert forward.stderr is not None
        local = re.search(r"http://127.0.0.1:(\d+) leads to", forward.stderr.readline())
        assert local is not None
        with socket.create_connection(("127.0.0.1", int(local[1])), LIMIT_S) as connection:
            assert connection.recv(1) == b""
        assert f"nothing listens on port {free} there" in forward.stderr.readline()
        forward.kill()
    assert "is not PORT or LOCAL:PORT" in settled.tarmac("port-forward", run, "80:x", code=2).stderr


def test_attaching_shows_the_last_lines_and_leaves_the_run_alone(settled: Shell) -> None:
    script = "seq 1 50; echo last; sleep 600"
    run = settled.tarmac("run", "-d", "--name", "counting", "--", "sh", "-c", script, code=0).stdout.strip()
    settled.until("logs", run, said="last")
    with Screen(settled, "attach", "--tail", "2", run) as screen:
        screen.wait_for(r"counting \(\w+\) is running")
        screen.wait_for("50\r\nlast")
        assert "\n49" not in screen.text
        screen.press("\x03")
        assert screen.end() == 130
    assert settled.json("show", run)["run"]["state"] == "running"


def test_top_shows_what_runs_until_q(settled: Shell) -> None:
    run = settled.tarmac("run", "-d", "--slots", "1", "--name", "busy", "--", "sleep", "600", code=0)
    settled.wait_until(run.stdout.strip(), "running")
    assert "busy" in settled.tarmac("top", code=0).stdout
    settled.until("show", "busy", said="of memory")  # measured once it has run for a moment
    document = settled.json("top")
    assert document.keys() == {"nodes", "queue", "utilization"}
    ((used,),) = [each["nodes"] for each in document["utilization"] if each["run"] == run.stdout.strip()]
    assert 0 < used["memory_bytes"] < 1 << 30
    assert "MEMORY" in settled.tarmac("top", code=0).stdout
    with Screen(settled, "top") as screen:
        screen.resize(30, 100)
        screen.wait_for("busy")
        screen.press("q")
        assert screen.end() == 0
        assert screen.is_cooked()
