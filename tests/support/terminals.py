"""What people do at terminals beside workers, on any engine. Used by the end-to-end tests."""

from __future__ import annotations

import os
import sys
import urllib.request
from pathlib import Path

from shell import LIMIT_S, Screen, Shell

LAB = """\
#!{python}
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        right = self.path.endswith("token=" + os.environ["JUPYTER_TOKEN"])
        self.send_response(200 if right else 403)
        self.end_headers()
        self.wfile.write(os.environ["TARMAC_RUN_ID"].encode())
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"is at http://127.0.0.1:{{server.server_address[1]}}/lab?token=...", file=sys.stderr, flush=True)
server.serve_forever()
"""


def try_commands(shell: Shell, run: str) -> None:
    """`exec` beside a worker of rank 0: where it is, its streams and exit code, a terminal; no worker."""
    inside = shell.tarmac("exec", run, "--", "sh", "-c", 'echo "rank $NODE_RANK"; pwd; echo no >&2; exit 7')
    assert (inside.returncode, inside.stderr) == (7, "no\n"), inside.stderr
    rank, directory = inside.stdout.splitlines()
    assert rank == "rank 0"
    assert "/attempts/" in directory
    text = "0123456789abcde\n" * 20_000
    assert shell.tarmac("exec", "-i", run, "--", "cat", stdin=text, code=0).stdout == text
    try_terminal(shell, run)
    missing = shell.tarmac("exec", run, "--role", "nobody", "--", "true", code=2)
    assert "the run has no such worker" in missing.stderr


def try_terminal(shell: Shell, run: str) -> None:
    """`exec -it`: keys, another size, Ctrl-C, and the exit code; afterwards the terminal is as it was."""
    with Screen(shell, "exec", "-it", run, "--", "sh") as screen:
        screen.wait_for(r"[#$] ")
        screen.resize(33, 99)
        sized = "until [ \"$(stty size)\" = '33 99' ]; do sleep 0.1; done"
        screen.press(f"{sized}; sh -c \"echo re''sized; exec sleep 600\"\n")  # in front before it says so
        screen.wait_for("resized")
        screen.press("\x03")
        screen.press("echo code $?; exit 4\n")
        screen.wait_for("code 130")
        assert screen.end() == 4
        assert screen.is_cooked()


def try_own_shell(shell: Shell, *options: str) -> None:
    """`shell --slots 1`: a copy of the directory, variables and a terminal; its run ends with it."""
    shell.write("notes.txt", "brought along\n")
    arguments = ("shell", "--slots", "1", "--env", "WORD=given", *options)
    with Screen(shell, *arguments, variables={"SHELL": "/bin/sh"}) as screen:
        run = screen.wait_for(r"shell is run (\w+)")[1]
        screen.wait_for(r"[#$] ")
        screen.press('cat notes.txt; echo "$WORD $TARMAC_RUN_ID"; test -t 0; exit $((5 + $?))\r')
        screen.wait_for(f"given {run}")
        assert screen.end() == 5
        assert "brought along" in screen.text
    shell.tarmac("wait", run, code=0)


def install_lab(directory: Path) -> str:
    """Put a `jupyter-lab` there, which tells whoever has its token what run it is in; a PATH with it."""
    program = directory / "jupyter-lab"
    program.write_text(LAB.format(python=sys.executable))
    program.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def try_notebook(shell: Shell, screen: Screen) -> None:
    """`jupyter`: reached from this machine with its token, which no log has; Ctrl-C ends it and its run."""
    run = screen.wait_for(r"jupyter is run (\w+)")[1]
    url = screen.wait_for(r"JupyterLab is at (http://127.0.0.1:\d+/lab\?token=[\w-]+)")[1]
    for _ in range(3):
        with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
            assert answer.read().decode() == run
    token = url.partition("token=")[2]
    assert token not in shell.tarmac("logs", run).stdout
    screen.press("\x03")
    assert screen.end() == 143
    shell.tarmac("wait", run, code=0)
