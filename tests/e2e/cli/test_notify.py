"""`--notify` and `notify`, as typed: what a receiver gets, what `show` says, and what is refused (N18)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any

import pytest

from shell import Shell

PATIENCE_S = 60.0


@pytest.fixture
def hook() -> Iterator[tuple[str, Queue[Any]]]:
    """The URL of a program that waits for news, and what it is told."""
    events: Queue[Any] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            events.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket.setblocking(False)  # a client that has left in between must not keep accept waiting
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/key-in-a-path", events
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_program_is_told_of_the_end_of_a_run(shell: Shell, hook: tuple[str, Queue[Any]]) -> None:
    url, events = hook
    shell.tarmac("run", "--no-code", "--name", "broken", "--notify", url, "--", "false", code=1)
    event = events.get(timeout=PATIENCE_S)
    assert (event["type"], event["run"]["name"], event["run"]["cause"]["code"]) == (
        "run.failed",
        "broken",
        "exit_code",
    )
    while (message := shell.json("show", "broken")["notifications"][0])["sent_at"] is None:
        assert message["error"] is None
    shown = shell.tarmac("show", "broken", code=0).stdout
    assert "webhook at 127.0.0.1" in shown
    assert "sent" in shown.splitlines()[-1]
    table = shown[shown.index("TELLS OF") :]
    assert "key-in-a-path" not in table, "the rest of a URL is often a key"


def test_a_file_names_a_secret_and_a_receiver_that_cannot_be_is_refused(
    shell: Shell, hook: tuple[str, Queue[Any]]
) -> None:
    url, events = hook
    shell.tarmac("secret", "set", "hook", stdin=url, code=0)
    file = shell.directory / "job.yaml"
    file.write_text(
        "name: job\ncommand: 'true'\nnotify: {to: '${{ secrets.hook }}', as: slack, on: [started, ended]}\n"
    )
    shell.tarmac("run", str(file), code=0)
    assert "job (" in events.get(timeout=PATIENCE_S)["text"]
    mail = shell.tarmac("run", "--no-code", "--notify", "ann@lab.example", "--", "true", code=2)
    assert "notify: ann@lab.example: this server sends no mail" in mail.stderr
    assert "[notifications] smtp" in mail.stderr
    file.write_text("command: 'true'\nnotify: {to: '${{ secrets.hok }}', as: slack}\n")
    unknown = shell.tarmac("run", str(file), code=2)
    assert "there is no secret 'hok'" in unknown.stderr
    assert "hook" in unknown.stderr
    wrong = shell.tarmac("run", "--no-code", "--notify", "ann", "--", "true", code=2)
    assert "an address of mail, an http(s) URL" in wrong.stderr


def test_a_person_is_notified_of_all_their_runs(shell: Shell, hook: tuple[str, Queue[Any]]) -> None:
    """N18: set once, kept over a restart of the server, and ended."""
    url, events = hook
    assert "have no receiver" in shell.tarmac("notifications", "ls", code=0).stderr
    shell.tarmac("notifications", "set", url, "--on", "failed", "--after", "30m", code=0)
    shell.tarmac("server", "stop", code=0)
    shell.tarmac("run", "--no-code", "--name", "good", "--", "true", code=0)
    shell.tarmac("run", "--no-code", "--name", "broken", "--", "false", code=1)
    event = events.get(timeout=PATIENCE_S)
    assert (event["type"], event["run"]["name"]) == ("run.failed", "broken")
    shown = shell.tarmac("notifications", "ls", code=0).stdout
    assert "webhook at 127.0.0.1" in shown
    assert "failed, waiting 30m" in shown
    assert "key-in-a-path" not in shown + shell.tarmac("notifications", "ls", "--json", code=0).stdout
    (found,) = shell.json("notifications", "ls")["subscriptions"]
    unknown = shell.tarmac("notifications", "unset", "nothing", code=2)
    assert "tarmac notifications ls" in unknown.stderr
    assert "is expected, not 'ann'" in shell.tarmac("notifications", "set", "ann", code=2).stderr
    usual = shell.tarmac("notifications", "set", url, code=0).stdout
    assert "completed, failed, stopped" in usual
    shell.tarmac("notifications", "unset", found["receiver"], code=0)
    shell.tarmac("run", "--no-code", "--name", "unset", "--", "false", code=1)
    assert shell.json("show", "unset")["notifications"] == []
