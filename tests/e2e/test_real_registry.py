"""Images of a real registry (Debian's `docker-registry`), by the command line: pulled once, and four ends."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from images import archive, busybox_image
from real_registry import RealRegistry, real_registry
from shell import Shell

pytestmark = pytest.mark.real_engine

LOGIN = ("ada", "correct-horse")
BOX = archive([("big", os.urandom(3_000_000))])
LIMIT, LEFT_BYTES = "12m", 500_000
"""Of the disk that fills up: the layers on their way fit, what is in them does not. So much stays free."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """A registry with a password, with `team/box:1`."""
    with real_registry(tmp_path_factory.mktemp("registry"), login=LOGIN) as found:
        found.push("team/box", "1", busybox_image(BOX))
        yield found


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path / "home", tmp_path / "project")
    shell.directory.mkdir()
    shell.tarmac("secret", "set", "team", "--as", "registry", stdin=":".join(LOGIN), code=0)
    yield shell
    shell.close()


@contextmanager
def watched(directory: Path) -> Iterator[list[int]]:
    """The bytes that were free on a disk each time that it was found as good as full."""
    found: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.002):
            free = os.statvfs(directory)
            found.extend([free.f_bavail] if free.f_bavail * free.f_frsize < LEFT_BYTES else [])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def run_file(shell: Shell, name: str, image: str, *, secret: str = "team") -> str:
    text = f"name: {name}\nenvironment: {{image: '{image}'}}\nsecrets: [{secret}]\ncommand: ls /big\n"
    return shell.write(f"{name}.yaml", text)


def test_ten_runs_on_a_node_pull_a_private_image_once(shell: Shell, guarded: RealRegistry) -> None:
    """M6, D11: by secret, with progress; every run knows the digest, and one of them how it came."""
    image, names = f"{guarded.address}/team/box:1", [f"ten-{number}" for number in range(10)]
    before = len(guarded.pulls())
    for name in names:
        shell.tarmac("run", "-d", run_file(shell, name, image), code=0)
    shell.tarmac("wait", *names, code=0)
    asked = guarded.pulls()[before:]
    (kept,) = shell.json("images", "ls")["images"]
    used = [shell.json("show", name)["attempts"][0]["milestones"]["image"] for name in names]
    assert {each["digest"] for each in used} == {kept["digest"]}
    whole = next(each for each in used if each["source"] and each["fetched_bytes"] == each["total_bytes"] > 0)
    assert whole["source"] == guarded.address
    assert whole["fetched_bytes"] > 3_000_000
    contents = busybox_image(BOX).contents
    layers = [digest for digest, content in contents.items() if content.startswith(b"\x1f\x8b")]
    assert [asked.count(layer) for layer in layers] == [1, 1]
    logs = "".join(shell.tarmac("logs", name).stdout for name in names)
    assert f"pulling {image}: " in logs
    assert f"{image} is {kept['digest']}" in logs
    assert LOGIN[1] not in logs


def test_what_cannot_be_pulled_says_why_and_what_to_do(shell: Shell, guarded: RealRegistry) -> None:
    """M6: FailedPull, with a hint at the secret; no password is in a message."""
    shell.tarmac("secret", "set", "wrong", "--as", "registry", stdin="ada:battery-staple", code=0)
    address = guarded.address
    for image, secret, words in (
        (f"{address}/team/box:9", "team", ("has no 9", "it has 1")),
        (f"{address}/team/none:1", "team", ("there is no image", "check the name")),
        (
            f"{address}/team/box:1",
            "wrong",
            ("refuses the user 'ada'", "tarmac secret set NAME --as registry"),
        ),
        (
            "127.0.0.1:1/team/box:1",
            "team",
            ("cannot be reached", "check the registry's name", "--no-container"),
        ),
    ):
        done = shell.tarmac("run", run_file(shell, "fails", image, secret=secret))
        assert done.returncode == 1
        assert all(word in done.stderr for word in words), done.stderr
        assert "battery-staple" not in done.stderr
        assert shell.json("show", "fails")["run"]["cause"]["code"] == "image_pull"
        for reads in (["why", "fails"], ["logs", "fails"], ["show", "fails", "--as", "mcli"]):
            read = shell.tarmac(*reads, code=0)
            assert words[0] in read.stdout + read.stderr, reads
    assert shell.tarmac("ls", "--as", "mcli", "-a").stdout.count("FailedPull") == 4


def test_a_disk_that_fills_up_in_a_pull_ends_the_run_and_keeps_nothing(
    shell: Shell, guarded: RealRegistry
) -> None:
    """M6: the fourth end, which comes while there is room left for others."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    files = [(f"big{number}", b"ab" * 4_000_000) for number in range(4)]
    image = guarded.push("team/packed", "1", busybox_image(archive(files)))
    images = shell.home / "images"
    images.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={LIMIT}", "tmpfs", images], check=True)
    try:
        with watched(images) as full:
            done = shell.tarmac("run", run_file(shell, "full", image))
        assert (done.returncode, "unpacked, it would take the last" in done.stderr) == (1, True), done.stderr
        assert not full
        assert "see `tarmac images`" in done.stderr
        assert shell.json("show", "full")["run"]["cause"]["code"] == "image_pull"
        assert shell.json("images", "ls")["images"] == []
        assert not list((images / "layers").glob("*.part"))
    finally:
        subprocess.run(["umount", "--lazy", images], check=True)
