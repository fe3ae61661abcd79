"""Code that comes over HTTP: what is asked, sent and refused (C7, D9). The real client and the real store."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from code_trees import copied, snapshots_in
from served import TOKEN, Served, served
from tarmac.artifacts.code.arrivals import HEADER
from tarmac.client import Client
from tarmac.client.http1 import Response
from tarmac.client.transport import Address, Pieces, Transport
from tarmac.model.errors import InvalidInput, Refused

RUN = "name: brings\ncommand: ./go\ncode: project\n"


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with served(tmp_path / "home", keeps_code=True) as made:
        yield made


@pytest.fixture
def remote(plane: Served) -> Client:
    return plane.remote_client(TOKEN)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    (directory / "data" / "empty").mkdir(parents=True)
    (directory / "go").write_text("#!/bin/sh\necho went\n")
    (directory / "go").chmod(0o755)
    (directory / "data" / "big.bin").write_bytes(os.urandom(9 << 20))
    (directory / "data" / "nothing").touch()
    (directory / "latest").symlink_to("data/big.bin")
    for number in range(20):
        (directory / f"part{number}.py").write_text(f"print({number})\n")
    return directory


@pytest.fixture
def root(plane: Served) -> Path:
    return plane.home.code


class Noting(Transport):
    """The client's transport, which notes what is asked; `before` is called with each path."""

    def __init__(self, address: Address, before: Callable[[str], None]) -> None:
        super().__init__(address)
        self.asked: list[tuple[str, int]] = []
        self._before = before

    def request(self, method: str, path: str, *, body: Any = None) -> Response:
        self._before(path)
        self.asked.append((path, body.size_bytes if isinstance(body, Pieces) else len(body or b"")))
        return super().request(method, path, body=body)


def noting(client: Client, before: Callable[[str], None] = lambda _path: None) -> list[tuple[str, int]]:
    """What a client asks from now on, and how many bytes it sends with it."""
    client._transport.close()
    client._transport = transport = Noting(client._transport._address, before)
    return transport.asked


def test_a_client_elsewhere_sends_the_directory_and_the_run_gets_it_as_it_was_c7(
    plane: Served, remote: Client, project: Path, root: Path
) -> None:
    """C7: content, modes, links and empty directories; the record names what was sent."""
    run = remote.submit(RUN, directory=project.parent)
    plane.turn()
    digest = remote.run(run.id).code_digest
    assert digest == run.spec["code"]["digest"]
    tree = copied(root, str(digest))
    assert (tree / "go").read_text() == "#!/bin/sh\necho went\n"
    assert stat.S_IMODE((tree / "go").stat().st_mode) == 0o755
    assert (tree / "data" / "big.bin").read_bytes() == (project / "data" / "big.bin").read_bytes()
    assert (tree / "latest").readlink() == Path("data/big.bin")
    assert (tree / "data" / "nothing").read_bytes() == b""
    assert (tree / "data" / "empty").is_dir()
    assert (tree / "part3.py").stat().st_mtime == (project / "part3.py").stat().st_mtime


def test_what_is_sent_and_what_the_server_reads_itself_are_called_the_same(
    plane: Served, remote: Client, project: Path, root: Path
) -> None:
    sent = remote.submit(RUN, directory=project.parent).spec["code"]["digest"]
    assert plane.code.snapshot(str(project)) == sent
    assert snapshots_in(root) == [sent]


def test_only_what_changed_is_sent_again_c7(remote: Client, project: Path) -> None:
    remote.submit(RUN, directory=project.parent)
    asked = noting(remote)
    remote.submit(RUN, directory=project.parent)
    assert [path for path, _ in asked] == ["/code/needed", "/code/missing", "/code/trees", "/runs"]
    asked.clear()
    (project / "part3.py").write_text("print('changed')\n")
    remote.submit(RUN, directory=project.parent)
    (pack_bytes,) = (size_bytes for path, size_bytes in asked if path == "/code/packs")
    assert pack_bytes == HEADER.size + len("print('changed')\n")


def test_an_upload_that_broke_off_goes_on_where_it_was_c7(
    plane: Served, remote: Client, project: Path, root: Path
) -> None:
    """Interrupted between two packs: what arrived is kept, and no snapshot of half a tree is there."""
    packs = iter(range(9))

    def interrupt(path: str) -> None:
        if path == "/code/packs" and next(packs) == 1:
            raise KeyboardInterrupt

    first = noting(remote, interrupt)
    with pytest.raises(KeyboardInterrupt):
        remote.submit(RUN, directory=project.parent)
    assert snapshots_in(root) == []
    again = plane.remote_client(TOKEN)
    second = noting(again)
    again.submit(RUN, directory=project.parent)
    sent = [[size for path, size in asked if path == "/code/packs"] for asked in (first, second)]
    assert len(snapshots_in(root)) == 1
    assert sum(sent[0]) > 0
    assert sum(sent[1]) > 0
    assert sum(map(sum, sent)) < sum(HEADER.size + path.stat().st_size for path in files(project)) + 100


def files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]


def test_a_file_that_changes_while_it_is_sent_is_sent_as_it_is_then(
    plane: Served, remote: Client, project: Path, root: Path
) -> None:
    changes = iter([b"as long as th", b"another length"])

    def change(path: str) -> None:
        if path == "/code/packs" and (content := next(changes, None)) is not None:
            (project / "part3.py").write_bytes(content)

    (project / "part3.py").write_bytes(b"thirteen byte")
    noting(remote, change)
    run = remote.submit(RUN, directory=project.parent)
    tree = copied(root, run.spec["code"]["digest"])
    assert (tree / "part3.py").read_bytes() == b"another length"
    assert plane.code.snapshot(str(project)) == run.spec["code"]["digest"]


def test_the_rules_of_the_run_file_hold_on_the_way_d9(remote: Client, project: Path, root: Path) -> None:
    """D9: the ignore file of its own, exclusions, and the limit with the largest files named."""
    (project / ".detignore").write_text("*.bin\n")
    code = "{path: project, ignore_file: .detignore, exclude: [.detignore, 'part1*'], limit: 1MiB}"
    run = remote.submit(f"name: d\ncommand: ./go\ncode: {code}\n", directory=project.parent)
    names = {path.name for path in copied(root, run.spec["code"]["digest"]).rglob("*")}
    assert {"go", "part2.py", "nothing"} <= names
    assert not {".detignore", "big.bin", "part1.py", "part13.py"} & names
    (project / ".detignore").unlink()
    with pytest.raises(InvalidInput, match=r"9\.0 MiB.*1\.0 MiB allowed.*big\.bin \(9\.0 MiB\)") as refused:
        remote.submit(f"name: d\ncommand: ./go\ncode: {code}\n", directory=project.parent)
    assert "leave it out in .detignore" in str(refused.value)


def test_runs_that_bring_the_same_send_it_once(remote: Client, project: Path) -> None:
    asked = noting(remote)
    runs = remote.submit_all([{"source": RUN, "directory": project.parent}] * 3)
    assert len({run.spec["code"]["digest"] for run in runs}) == 1
    assert [path for path, _ in asked].count("/code/trees") == 1


def test_a_clone_brings_what_the_first_brought(plane: Served, remote: Client, project: Path) -> None:
    first = remote.submit(RUN, directory=project.parent)
    plane.turn()
    (project / "go").write_text("something else")
    clone = remote.submit(clone=first.id)
    assert clone.spec["code"]["digest"] == first.spec["code"]["digest"]


def test_a_clone_with_another_text_keeps_code_and_submitters_variables(
    plane: Served, remote: Client, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/opt/venv")
    first = plane.client().submit(RUN, directory=project.parent)
    plane.turn()
    changed = remote.submit(f"{RUN}retries: 3\n", clone=first.id)
    assert changed.spec["retries"] == 3
    assert changed.source.endswith("retries: 3\n")
    assert changed.spec["code"]["digest"] == plane.client().run(first.id).code_digest
    assert changed.spec["environment"]["inherited"]["VIRTUAL_ENV"] == "/opt/venv"
    assert changed.spec["code"]["path"] == first.spec["code"]["path"]
    with pytest.raises(Refused, match="has not ended"):
        remote.submit(RUN, clone=first.id, resume=True)


def test_an_archive_is_sent_whole_and_unpacked_there_c7(remote: Client, project: Path, root: Path) -> None:
    with zipfile.ZipFile(project.parent / "project.zip", "w") as archive:
        archive.write(project / "go", "go")
        archive.write(project / "part1.py", "src/part1.py")
    run = remote.submit("name: z\ncommand: ./go\ncode: project.zip\n", directory=project.parent)
    tree = copied(root, run.spec["code"]["digest"])
    assert os.access(tree / "go", os.X_OK)
    assert (tree / "src" / "part1.py").read_text() == "print(1)\n"


def test_a_program_that_sends_nothing_is_told_and_the_path_is_not_read_here(
    plane: Served, project: Path
) -> None:
    """A directory of that name on the server's machine is not the submitter's."""
    transport = plane.remote_client(TOKEN)._transport
    body = json.dumps({"source": RUN, "directory": str(project.parent)}).encode()
    with pytest.raises(InvalidInput, match="this server cannot read it"):
        transport.request("POST", "/runs", body=body)


def test_the_users_own_server_reads_the_directory_itself(plane: Served, project: Path) -> None:
    client = plane.client()
    asked = noting(client)
    client.submit(RUN, directory=project.parent)
    assert [path for path, _ in asked] == ["/runs"]


def test_whoever_listens_hears_how_far_an_upload_is(plane: Served, project: Path) -> None:
    told: list[tuple[int, int]] = []
    address = f"http://127.0.0.1:{plane.tcp_port}"
    with Client(address, token=TOKEN, on_upload=lambda sent, of: told.append((sent, of))) as client:
        client.submit(RUN, directory=project.parent)
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] > 9 << 20


# --- hostile clients (C7): everything is refused, and nothing is kept or written anywhere else


@pytest.fixture
def send(plane: Served) -> Callable[..., Any]:
    transport = plane.remote_client(TOKEN)._transport

    def sent(path: str, body: Any) -> Any:
        content = body if isinstance(body, bytes | Pieces) else json.dumps(body).encode()
        return json.loads(transport.request("POST", path, body=content).body)

    return sent


def pack(*contents: bytes, named: str | None = None, length: int | None = None) -> Pieces:
    """Contents as they are sent; `named` and `length` say something else than is true."""
    body = b"".join(
        HEADER.pack(
            bytes.fromhex(named or hashlib.sha256(content).hexdigest()),
            len(content) if length is None else length,
        )
        + content
        for content in contents
    )
    return Pieces(size_bytes=len(body), begin=lambda: iter([body]))


TEXT = b"print('hello')\n"
HASH = hashlib.sha256(TEXT).hexdigest()
FILE = ["f", 0o644, "a.py", HASH, 0]


def test_more_than_is_allowed_is_refused_whatever_the_client_claims_c7(
    send: Callable[..., Any], plane: Served, root: Path
) -> None:
    """D9, C7: the tree at its real size, the submission again at the limit of its run file."""
    plane.code.limit_bytes = 10
    send("/code/packs", pack(TEXT))
    with pytest.raises(InvalidInput, match=r"more than the .* allowed.*a\.py"):
        send("/code/trees", {"path": "x", "entries": [FILE]})
    digest = send("/code/trees", {"path": "x", "entries": [FILE], "limit_bytes": 1000})["digest"]
    with pytest.raises(InvalidInput, match="more than"):
        send("/runs", {"source": RUN, "code_digest": digest})
    assert snapshots_in(root) == [digest]


@pytest.mark.parametrize("digest", ["../../../etc/passwd", "0" * 64, "", "packs", "A" * 64])
def test_a_snapshot_that_is_none_is_refused_c7(send: Callable[..., Any], digest: str) -> None:
    with pytest.raises(InvalidInput, match="there is no snapshot"):
        send("/runs", {"source": RUN, "code_digest": digest})


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b"[" * 100_000, b'{"path": 7, "entries": []}', b"\xff"])
def test_what_is_no_tree_is_refused_c7(send: Callable[..., Any], body: bytes) -> None:
    with pytest.raises(InvalidInput):
        send("/code/trees", body)


def test_clients_that_send_the_same_at_once_come_to_one_snapshot_c7(
    plane: Served, project: Path, root: Path
) -> None:
    clients = [plane.remote_client(TOKEN) for _ in range(4)]
    threads = [
        threading.Thread(target=client.submit, args=(RUN,), kwargs={"directory": project.parent})
        for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(snapshots_in(root)) == 1
    assert len(plane.client().runs().runs) == 4
