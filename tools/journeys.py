"""Counts the files and functions of the server that a run passes, and the rooms of two of its functions.

    python tools/journeys.py              `tarmac run hello.yaml` on a server of its own, in a fresh home

The server runs under `sys.setprofile`. What it enters between the command and the end of the run counts, its
start does not. Printed as well: for `prepare` and `compose` the rooms that one call enters and its returns.
A room is a module; model records are no rooms, and the reader of a text is one, whatever its modules (with
`--all` each is one). A return is a way back: a pair of rooms (caller, called), the called one entered first.
Run by people after a change of these paths. `--rooms` and `--files` list what was counted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = f"{ROOT / 'src' / 'tarmac'}{os.sep}"
WATCHED = {
    ("server/submitting/submissions.py", "prepare"): "prepare",
    ("launch/compose.py", "compose"): "compose",
}
RECORDS = "model/"
READER = ("dialects/", "systems/")
LIMIT_S = 120.0


def file_of(code: CodeType) -> str | None:
    """The path of a function's file below the package; None for a function of another package."""
    name = code.co_filename
    return name[len(SOURCE) :] if name.startswith(SOURCE) else None


def room_of(file: str) -> str | None:
    """The room that a file belongs to; None for a record of the model, unless `--all` is given."""
    if "--all" in sys.argv:
        return file
    if file.startswith(RECORDS):
        return None
    return "reader" if file.startswith(READER) else file


class Recorder:
    """Collects the functions that are entered, and the rooms of the watched functions."""

    def __init__(self) -> None:
        self.entered: set[CodeType] = set()
        self.edges: dict[str, list[tuple[str, str]]] = {}
        self._local = threading.local()

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """The profile function of every thread of the server."""
        if event not in ("call", "return"):
            return
        file = file_of(frame.f_code)
        if file is None:
            return
        stack = self._local.__dict__.setdefault("stack", [])
        watched = WATCHED.get((file, frame.f_code.co_name))
        if event == "call":
            if not frame.f_code.co_name.startswith("<"):  # a comprehension is part of its function
                self.entered.add(frame.f_code)
            if stack or watched:
                self._enter(stack, file, watched)
        elif stack:
            stack.pop()

    def _enter(self, stack: list[tuple[str, str]], file: str, watched: str | None) -> None:
        walk, above = stack[-1] if stack else (str(watched), "")
        room = room_of(file) or above
        stack.append((walk, room))
        edges = self.edges.setdefault(walk, [])
        if room != above and (above, room) not in edges:
            edges.append((above, room))

    def clear(self) -> None:
        """Begin the count anew."""
        self.entered.clear()
        self.edges.clear()

    def counts(self) -> dict[str, Any]:
        """The counts so far."""
        files = {file for code in self.entered if (file := file_of(code)) is not None}
        walks = {}
        for walk, edges in self.edges.items():
            rooms = list(dict.fromkeys(room for _, room in edges))
            back = [f"{a} -> {b}" for a, b in edges if a and rooms.index(b) < rooms.index(a)]
            walks[walk] = {"rooms": rooms, "returns": back}
        return {"files": sorted(files), "functions": len(self.entered), "walks": walks}


def serve(home: str, out: str) -> None:
    """Run a server under the recorder; SIGUSR1 begins the count anew, SIGUSR2 writes it."""
    recorder = Recorder()
    signal.signal(signal.SIGUSR1, lambda *_: recorder.clear())
    signal.signal(signal.SIGUSR2, lambda *_: Path(out).write_text(json.dumps(recorder.counts())))
    threading.setprofile(recorder.profile)
    sys.setprofile(recorder.profile)
    from tarmac.server.__main__ import main  # noqa: PLC0415 - under the recorder

    sys.exit(main(["--home", home]))


def run_hello() -> dict[str, Any]:
    """The counts of one run of `command: echo hello`."""
    with tempfile.TemporaryDirectory() as directory:
        home, out = Path(directory, "home"), Path(directory, "counts.json")
        home.mkdir()
        for name in ("hello", "again"):  # the reading of a text is cached: the second has another
            Path(directory, f"{name}.yaml").write_text(f"command: echo {name}\n")
        variables = {**os.environ, "TARMAC_HOME": str(home)}
        command = [sys.executable, "-P", __file__, "--serve", str(home), str(out), *sys.argv[1:]]
        with subprocess.Popen(command, env=variables, start_new_session=True) as server:
            try:
                tarmac(directory, variables, "ls")
                tarmac(directory, variables, "run", "hello.yaml")
                server.send_signal(signal.SIGUSR1)
                time.sleep(1.0)
                tarmac(directory, variables, "run", "again.yaml")
                server.send_signal(signal.SIGUSR2)
                limit = time.monotonic() + LIMIT_S
                while not out.exists() and time.monotonic() < limit:
                    time.sleep(0.1)
                time.sleep(0.5)
                found: dict[str, Any] = json.loads(out.read_text())
            finally:
                server.terminate()
    return found


def tarmac(directory: str, variables: dict[str, str], *words: str) -> None:
    """Run a command, tried again until the server answers."""
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        socket = Path(variables["TARMAC_HOME"], "server.sock")
        if socket.exists():
            break
        time.sleep(0.1)
    subprocess.run(
        [Path(sys.executable).with_name("tarmac"), *words],
        cwd=directory,
        env=variables,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def main() -> None:
    """Print the counts."""
    if sys.argv[1:2] == ["--serve"]:
        serve(*sys.argv[2:4])
    found = run_hello()
    print(f"hello: {len(found['files'])} files, {found['functions']} functions of the server")
    for walk, counted in found["walks"].items():
        print(f"{walk}: {len(counted['rooms'])} rooms, {len(counted['returns'])} returns")
        if "--rooms" in sys.argv:
            print("\n".join(f"  {room}" for room in counted["rooms"]))
            print("\n".join(f"  back: {back}" for back in counted["returns"]))
    if "--files" in sys.argv:
        print("\n".join(found["files"]))


if __name__ == "__main__":
    main()
