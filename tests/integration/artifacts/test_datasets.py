"""Datasets from a plain web server, as `fetch` brings them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tarmac.artifacts.datasets import fetch, shown
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.notification import check_address

SIZE_BYTES = 12 * 1024 * 1024
"""More than a file system that reads parts of files would read in one."""


class Quiet(SimpleHTTPRequestHandler):
    """The server of the standard library: it knows no ranges."""

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A web server with a large file."""
    (tmp_path / "www").mkdir()
    (tmp_path / "www/large.bin").write_bytes(os.urandom(SIZE_BYTES))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "www")))
    server.socket.setblocking(False)  # a client that has left in between must not keep accept waiting
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/large.bin"
    server.shutdown()
    thread.join()
    server.server_close()


def test_i8_a_large_file_comes_from_a_server_that_gives_no_parts(tmp_path: Path, address: str) -> None:
    told: list[tuple[int, int | None]] = []
    fetch(address, tmp_path / "got", lambda done, total: told.append((done, total)))
    assert (tmp_path / "got/large.bin").read_bytes() == (tmp_path / "www/large.bin").read_bytes()
    assert told[-1] == (SIZE_BYTES, SIZE_BYTES)


def test_i8_a_fetch_that_broke_off_leaves_nothing_and_can_be_repeated(tmp_path: Path, address: str) -> None:
    def full(done: int, total: int | None) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(Unavailable, match="No space left on device"):
        fetch(address, tmp_path / "got", full)
    assert [path.name for path in tmp_path.iterdir()] == ["www"]
    fetch(address, tmp_path / "got", lambda done, total: None)
    assert (tmp_path / "got/large.bin").stat().st_size == SIZE_BYTES


def test_i8_a_plain_install_fetches_from_the_web(tmp_path: Path, address: str) -> None:
    """Nothing is imported that tarmac itself does not depend on."""
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('aiohttp', 'requests', 'fsspec.implementations.http')))\n"
        "from pathlib import Path\n"
        "from tarmac.artifacts.datasets import fetch\n"
        "fetch(sys.argv[1], Path(sys.argv[2]), lambda done, total: None)\n"
    )
    subprocess.run([sys.executable, "-c", program, address, str(tmp_path / "got")], check=True)
    assert (tmp_path / "got/large.bin").stat().st_size == SIZE_BYTES


@pytest.mark.parametrize(
    ("path", "said"), [("nothing.bin", "answers 404"), ("", "names no file"), ("a/..", "names no file")]
)
def test_i8_what_is_not_there_is_said_and_leaves_nothing(
    tmp_path: Path, address: str, path: str, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        fetch(address.replace("large.bin", path), tmp_path / "got", lambda done, total: None)
    assert [found.name for found in tmp_path.iterdir()] == ["www"]


def test_a_shared_server_fetches_nothing_from_its_own_machine(tmp_path: Path, address: str) -> None:
    """The rule is that of webhooks: the address of the connection counts, not the name."""
    by_name = address.replace("127.0.0.1", "localhost")
    for url in (address, by_name, "ftp://localhost/x", "sftp://127.0.0.1/x", "webhdfs://[::1]:9870/x"):
        with pytest.raises(InvalidInput, match="private_addresses forbids it"):
            fetch(url, tmp_path / "got", lambda done, total: None, private_addresses=False)
    assert [found.name for found in tmp_path.iterdir()] == ["www"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "0.0.0.0"])
def test_an_address_of_this_machine_or_its_link_is_forbidden(address: str) -> None:
    with pytest.raises(InvalidInput, match="forbids it"):
        check_address(address, "name.example")


def test_an_address_elsewhere_is_not(tmp_path: Path) -> None:
    check_address("93.184.216.34", "name.example")
    check_address("10.0.0.1", "name.example")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://ann:s3cr3t@127.0.0.1/x",
        "ftp://ann:s3c@s3cr3t@127.0.0.1/x",
        "sftp://ann:s3cr3t%20x@127.0.0.1/x",
        "https://127.0.0.1/x?X-Amz-Signature=s3cr3t",
    ],
)
def test_what_may_be_a_secret_in_a_url_is_hidden(url: str) -> None:
    for text in (url, f"{url}: login of ann with s3cr3t x failed", f"530 {url}"):
        assert "s3cr3t@" not in shown(text, url)
        assert "=s3cr3t" not in shown(text, url)
    assert shown(url, url).endswith(("127.0.0.1/x", "127.0.0.1/x?***"))
