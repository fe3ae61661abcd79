"""`python -m benchmarks.upload`: 90 MB in 5,000 files to a server over HTTP, next to `tar | gzip` of them.

Three times over, medians in seconds: everything, then after changing one file, then with nothing changed; the
same read by the user's own server, and the working directory made on a node. Called by hand; the figures are
in README.md.
"""

from __future__ import annotations

import os
import random
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.sandbox import drain_all, sandbox
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.client import Client
from tarmac.node.hooks.code import make_tree

FILES, TOTAL_BYTES, DIRECTORIES = 5_000, 90_000_000, 200
REPEATS = 3
SETTLED_S = 2.5
"""Until the file system's clock has moved on, so that what was read is remembered."""


def main() -> None:
    values: dict[str, list[float]] = {}
    for repeat in range(REPEATS):
        for row, took_s in measure(repeat).items():
            values.setdefault(row, []).append(took_s)
    for row, took in values.items():
        print(f"{row:45} {statistics.median(took):6.2f} s   ({', '.join(f'{one:.2f}' for one in took)})")
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")


def measure(seed: int) -> dict[str, float]:
    """Every row once, on a server and a directory of their own."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        project = Path(place) / "project"
        fill(project, random.Random(seed))
        os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
        time.sleep(SETTLED_S)
        archive = ["sh", "-c", 'tar cf - -C "$0" . | gzip > "$1"', str(project), f"{place}/a.tar.gz"]
        found["tar | gzip"] = timed(lambda: subprocess.run(archive, check=True))
        with sandbox() as local:
            drain_all(local)
            with listening(local) as remote:
                found |= over_http(remote, project)
        found |= on_disk(project, Path(place))
    return found


def over_http(remote: Client, project: Path) -> dict[str, float]:
    """Submissions whose code goes over the wire; on return of each it is durable there."""
    source = "name: upload\ncommand: 'true'\ncode: project\n"

    def submit() -> object:
        return remote.submit(source, directory=project.parent)

    found = {"over HTTP, first": timed(submit)}
    change(project)
    found["over HTTP, one file changed"] = timed(submit)
    found["over HTTP, nothing changed"] = timed(submit)
    return found


def on_disk(project: Path, place: Path) -> dict[str, float]:
    """What the user's own server does, and a node."""
    store = DirectoryCodeStore(place / "code")
    found = {"read by the own server, first": timed(lambda: store.snapshot(str(project)))}
    change(project)
    found["read by the own server, one file changed"] = timed(lambda: store.snapshot(str(project)))
    digest = store.snapshot(str(project))
    work = place / "work"
    work.mkdir()
    found["working directory on a node"] = timed(
        lambda: make_tree(str(place / "code" / digest), str(work), lambda: None)
    )
    return found


def listening(local: Client) -> Client:
    """A client over TCP of the same server, which is started again with a listener."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    local.home.settings.write_text(f'[server]\nlisten = "127.0.0.1:{port}"\n')
    local.stop_server()
    while local.home.socket.exists():
        time.sleep(0.01)
    local.version()
    return Client(f"http://127.0.0.1:{port}", token=local.home.token.read_text().strip())


def fill(project: Path, drawn: random.Random) -> None:
    """Half text that packs well, half noise that does not."""
    size_bytes = TOTAL_BYTES // FILES
    for number in range(FILES):
        directory = project / f"d{number % DIRECTORIES}"
        directory.mkdir(parents=True, exist_ok=True)
        if number % 2:
            content = drawn.randbytes(size_bytes)
        else:
            line = f"value_{drawn.random()} = compute({number})\n".encode()
            content = (line * (size_bytes // len(line) + 1))[:size_bytes]
        (directory / f"f{number}.py").write_bytes(content)


def change(project: Path) -> None:
    """Write one file anew."""
    (project / "d3" / "f3.py").write_bytes(os.urandom(TOTAL_BYTES // FILES))


def timed(work: Callable[[], object]) -> float:
    """How long something takes."""
    began_at = time.perf_counter()
    work()
    return time.perf_counter() - began_at


if __name__ == "__main__":
    main()
