"""Runs in images, by the command line: real runners, images made on the spot, a registry of this machine."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import wait_until
from gitserver import Repo, http_server
from image_ends import ends_without_remains
from images import archive, build, busybox_image, busybox_layer, registry, special
from shell import Shell

LOGIN = ("ada", "lovelace")


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user with `box.tar`, an image with a shell; the entry point and a variable in it are hostile."""
    directory = tmp_path_factory.mktemp("boxed")
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    env = ("GREETING=hello", "TARMAC_RUN_ID=forged", "PATH=/opt/bin:/bin")
    layer = archive([("opt/bin/own", b"#!/bin/sh\necho own program\n")])
    busybox_image(layer, env=env, Entrypoint=["/bin/false"]).write_archive(shell.directory / "box.tar")
    shell.tarmac("server", "start", code=0)
    yield shell
    shell.close()


def run_file(shell: Shell, name: str, body: str, *, image: str | None = None) -> str:
    """Write a run file for the image; its name."""
    where = image or str(shell.directory / "box.tar")
    return shell.write(f"{name}.yaml", f"name: {name}\nenvironment: {{image: '{where}'}}\n{body}")


def test_a_run_finds_its_image_and_what_is_its_own(boxed: Shell) -> None:
    """I5, D11: the command runs in the image, with the paths and variables of tarmac, as root."""
    file = run_file(
        boxed,
        "finds",
        "code: code\n"
        "command: |\n"
        "  own\n"
        "  echo $GREETING $HOME $(id -u) $TARMAC_RUN_ID\n"
        "  cat file; pwd\n"
        "  echo kept > $CRUD_ARTIFACT_PATH/kept\n"
        "  test $CRUD_ARTIFACT_PATH = /mnt/crud\n"
        "  ls /usr/lib/python3* /etc/debian_version || true\n"
        "  echo $SHELL_OF_MINE end\n",
    )
    boxed.write("code/file", "my code\n")
    done = boxed.tarmac("run", file, code=0)
    run = boxed.json("show", "finds")["run"]
    first, second, third, fourth, *rest = done.stdout.splitlines()
    assert (first, second) == ("own program", f"hello /root 0 {run['id']}")
    assert third == "my code"
    assert fourth.startswith(str(boxed.home))
    assert any("/etc/debian_version: No such file" in line for line in rest)
    kept = boxed.home / "runs" / run["id"] / "artifacts" / "crud" / "kept"
    assert kept.read_text() == "kept\n"
    assert kept.stat().st_uid == os.getuid()
    assert not (boxed.home / "runs" / run["id"] / "attempts" / "1" / "roots" / "node").exists()


@pytest.mark.parametrize(
    ("command", "code", "text"),
    [
        ("exit 7", 7, "exited with 7"),
        ("kill -9 $$", 137, "SIGKILL"),
        ("[no-such-program]", 127, "there is no such command on the PATH /opt/bin:/bin"),
        ("[/etc]", 126, "Permission denied"),
    ],
)
def test_ends_are_told_apart_as_outside(boxed: Shell, command: str, code: int, text: str) -> None:
    file = run_file(boxed, "ends", f"command: {command}\n")
    done = boxed.tarmac("run", file)
    assert (done.returncode, text in done.stderr) == (code, True), done.stderr


def test_steps_hooks_and_workers_share_what_they_change_of_the_image(boxed: Shell) -> None:
    file = run_file(
        boxed,
        "steps",
        "setup:\n- echo from a step > /etc/from-step\n"
        "hooks: {before: ['cat /etc/from-step > /etc/from-hook']}\n"
        "command: cat /etc/from-hook\n",
    )
    assert boxed.tarmac("run", file, code=0).stdout == "from a step\n"
    again = run_file(boxed, "again", "command: test ! -e /etc/from-step\n")
    boxed.tarmac("run", again, code=0)
    failing = run_file(boxed, "failing", "setup:\n- exit 3\ncommand: 'true'\n")
    done = boxed.tarmac("run", failing, code=3)
    assert "setup step 1 (exit 3)" in done.stderr
    assert "exited with 3" in done.stderr


def test_a_run_in_an_image_pauses_and_resumes(boxed: Shell) -> None:
    """The signal reaches the program itself, and the next attempt finds its artifacts."""
    file = run_file(
        boxed,
        "pauses",
        "command: |\n"
        "  count=/mnt/checkpoints/count\n"
        "  echo x >> $count\n"
        "  trap 'echo leaving; exit 0' TERM\n"
        "  test $(wc -l < $count) -gt 1 && exit 0\n"
        "  echo ready\n"
        "  while true; do sleep 0.1; done\n",
    )
    boxed.tarmac("run", "-d", file, code=0)
    boxed.until("logs", "pauses", said="ready")
    boxed.tarmac("pause", "pauses", "--wait", code=0)
    assert "leaving" in boxed.tarmac("logs", "pauses").stdout
    boxed.tarmac("resume", "pauses", code=0)
    boxed.wait_until("pauses", "ended")
    assert boxed.json("show", "pauses")["run"]["outcome"] == "completed"


def test_nothing_of_a_run_in_an_image_outlives_it(boxed: Shell) -> None:
    ends_without_remains(boxed, "--image", str(boxed.directory / "box.tar"))


def test_a_session_is_in_the_image_with_no_more_rights(boxed: Shell) -> None:
    """`tarmac exec` beside a worker in an image: its files, and none of the powers that it lacks."""
    file = run_file(boxed, "beside", "command: |\n  echo x > /etc/mine\n  echo ready\n  sleep 600\n")
    boxed.tarmac("run", "-d", file, code=0)
    boxed.until("logs", "beside", said="ready")
    assert boxed.tarmac("exec", "beside", "--", "cat", "/etc/mine", code=0).stdout == "x\n"
    assert boxed.tarmac("exec", "beside", "--", "mount", "-t", "tmpfs", "x", "/tmp").returncode != 0
    status = boxed.tarmac("exec", "beside", "--", "grep", "NoNewPrivs", "/proc/self/status", code=0).stdout
    assert status.split() == ["NoNewPrivs:", "1"]
    boxed.tarmac("stop", "beside", "--wait", code=0)


def test_an_image_that_cannot_be_pulled_ends_its_run_with_the_reason(boxed: Shell) -> None:
    """M6: FailedPull, with what to do; the password of the registry is in no message."""
    small = busybox_image()
    with registry(images={"team/box:1": small}, login=LOGIN) as double:
        for image, text in (
            (f"{double.address}/team/box:1", "without credentials"),
            ("127.0.0.1:1/box", "cannot be reached"),
            ("/nowhere.tar", None),
            ("Wrong Name", None),
        ):
            file = run_file(boxed, "pulled", "command: 'true'\n", image=image)
            done = boxed.tarmac("run", file)
            if text is None:
                assert done.returncode == 2
                continue
            assert (done.returncode, text in done.stderr) == (1, True), done.stderr
            assert boxed.json("show", "pulled")["run"]["cause"]["code"] == "image_pull"
    assert "FailedPull" in boxed.tarmac("ls", "--as", "mcli", "-a").stdout


def test_ten_runs_of_one_image_pull_it_once_with_progress(boxed: Shell) -> None:
    with registry(images={"team/box:2": busybox_image(archive([("two", b"2")]))}) as double:
        image = f"{double.address}/team/box:2"
        files = [run_file(boxed, f"ten-{number}", "command: cat /two\n", image=image) for number in range(10)]
        for file in files:
            boxed.tarmac("run", "-d", file, code=0)
        boxed.tarmac("wait", *(f"ten-{number}" for number in range(10)), code=0)
    assert {double.pulls().count(path) for path in double.pulls() if path.endswith(layers_of(double))} == {1}


def layers_of(double: object) -> tuple[str, ...]:
    """The digests of the layers, not of the configuration."""
    (built,) = double.images.values()  # type: ignore[attr-defined]
    return tuple(digest for digest, content in built.contents.items() if content[:2] == b"\x1f\x8b")


def test_a_stop_ends_a_pull_at_once(boxed: Shell) -> None:
    gate = threading.Event()
    slow = busybox_image(archive([("slow", os.urandom(50_000))]))
    with registry(images={"slow:1": slow}, gate=gate) as double:
        file = run_file(boxed, "slow", "command: 'true'\n", image=f"{double.address}/slow:1")
        boxed.tarmac("run", "-d", file, code=0)
        boxed.until("logs", "slow", said="pulling")
        boxed.until("why", "slow", said=f"is being pulled from {double.address} (")
        layers = boxed.home / "images/layers"
        assert list(layers.glob("*.part"))
        boxed.tarmac("stop", "slow", "--wait", code=0)
        gate.set()
    assert boxed.json("show", "slow")["run"]["outcome"] == "stopped"
    wait_until(lambda: not list(layers.glob("*.part")) or None, "what a stopped pull half made stays")


def test_an_image_and_its_commands_may_little(boxed: Shell) -> None:
    """A hostile image does no more than a hostile command: nothing of the node is changed or seen."""
    secret = boxed.directory / "mine"
    secret.write_text("mine")
    tries = (
        f"cat {secret}",
        "mount -t tmpfs none /opt",
        "umount /proc/sys",
        "mknod /tmp/disk b 8 0",
        "echo x > /proc/sys/kernel/hostname",
        "echo x > /proc/sysrq-trigger",
        "echo x > /sys/kernel/profiling",
        "head -c1 /proc/kcore > /tmp/core && test -s /tmp/core",
        "mount -o remount,rw /sys",
        "chroot /proc/1/root true",
        "test -S /var/run/docker.sock",
    )
    script = "".join(f"  if ({each}) 2>/dev/null; then echo 'DONE: {each}'; fi\n" for each in tries)
    file = run_file(boxed, "hostile", f"command: |\n{script}  echo end\n")
    assert boxed.tarmac("run", file, code=0).stdout == "end\n"


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["etc", "var", "mnt", "tmp", "dev", "sys", "proc", "root", "workspace"])
def test_links_of_an_image_lead_out_of_it_at_no_time(boxed: Shell, tmp_path: Path, name: str) -> None:
    """Not even while its root is made, by root: the kernel's links at /proc lead to the node."""
    place, binds = (
        tmp_path / "of-the-node",
        f"binds: [{{source: '{boxed.directory}', target: /workspace/x}}]\n",
    )
    place.mkdir()
    for to in (f"/proc/1/root{place}", f"/proc/self/root{place}", "/proc/self/cwd", "/proc/self/fd/3"):
        layer = archive([(name, special(tarfile.SYMTYPE, link=to))])
        busybox_image(layer).write_archive(tmp_path / "links.tar")
        image = str(tmp_path / "links.tar")
        boxed.tarmac("run", run_file(boxed, "links", f"{binds}command: 'true'\n", image=image))
        assert list(place.iterdir()) == []


def test_a_directory_of_the_node_is_an_image_where_it_may_be_shown(shell: Shell, tmp_path: Path) -> None:
    """`shows` holds for what is taken as it stands; an image that was built shows itself alone."""
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text(f"[containers]\nshows = ['{tmp_path}/open']\n")
    for name in ("open", "hidden"):
        with tarfile.open(fileobj=io.BytesIO(busybox_layer())) as tar:
            tar.extractall(tmp_path / name, filter="data")
    (tmp_path / "open/link").symlink_to(tmp_path / "hidden")
    shell.tarmac("run", "--image", str(tmp_path / "open"), "--", "true", code=0)
    for path in (tmp_path / "hidden", tmp_path / "open/link", Path("/")):
        done = shell.tarmac("run", "--image", str(path), "--", "true")
        assert (done.returncode, "containers may not show here" in done.stderr) == (1, True), done.stderr
    image = busybox_image().write_archive(tmp_path / "box.tar")
    shell.tarmac("run", "--image", str(image), "--", "true", code=0)


def test_more_layers_than_a_mount_takes_are_said_to_be_too_many(boxed: Shell, tmp_path: Path) -> None:
    """As many as Docker makes of one image are not."""
    layers = [archive([(f"layer{number}", b"1")]) for number in range(170)]
    most = busybox_image(*layers[:126]).write_archive(tmp_path / "most.tar")
    boxed.tarmac("run", "--image", str(most), "--", "ls", "/layer0", "/layer125", code=0)
    more = busybox_image(*layers).write_archive(tmp_path / "more.tar")
    assert (
        "171 layers are more than one mount takes"
        in boxed.tarmac("run", "--image", str(more), "--", "ls").stderr
    )


def test_what_an_image_sets_is_for_its_own_programs_alone(shell: Shell, tmp_path: Path) -> None:
    """Variables that lead programs astray reach nothing that runs beside the container: git, the sidecar."""
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text('[git]\ngit_transports = ["http"]\n')
    hostile = [f"{name}=/evil" for name in ("GIT_EXEC_PATH", "PYTHONHOME", "PYTHONPATH", "BASH_ENV", "ENV")]
    hostile += [
        "LD_PRELOAD=/evil.so",
        "PATH=/evil:/bin",
        "GIT_SSH_COMMAND=/evil/git",
        "TARMAC_PAUSE_FILE=/evil",
    ]
    evil = archive([("evil/git", b"#!/bin/sh\necho EVIL\n"), ("evil.so", b"no library")])
    image = busybox_image(evil, env=hostile, User="nobody", WorkingDir="/evil", Volumes={"/mnt/crud": {}})
    image.write_archive(shell.directory / "evil.tar")
    with http_server(tmp_path / "served") as served:
        repo = Repo.new(served.root / "library", **{"data.txt": "kept\n"})
        file = run_file(
            shell,
            "astray",
            f"setup:\n- git: {served.url_of(repo)}\n"
            "command: |\n  id -u; git; cat library/data*\n"
            "  echo $PYTHONHOME $LD_PRELOAD; echo x > $CHECKPOINT_ARTIFACT_PATH/saved\n"
            "  test -d $(dirname $TARMAC_PAUSE_FILE) && test $TARMAC_PAUSE_FILE != /evil\n",
            image=str(shell.directory / "evil.tar"),
        )
        done = shell.tarmac("run", file, code=0)
    assert done.stdout.split() == ["0", "EVIL", "kept", "/evil", "/evil.so"]
    assert "evil" not in shell.tarmac("logs", "astray", "--role", "setup").stdout.replace("evil.tar", "")
    (kept,) = shell.json("artifacts", "ls", "astray")["artifacts"]
    assert kept["kind"] == "checkpoint"


def test_an_image_without_any_program_can_be_pulled_ahead(shell: Shell) -> None:
    """D11, M6: it is there afterwards, and nothing looks like a failure."""
    empty = build(archive([("data", b"1")]))
    with registry(images={"empty:1": empty}) as double:
        done = shell.tarmac("images", "pull", f"{double.address}/empty:1", code=0)
    assert "error" not in done.stderr
    assert shell.json("ls", "-a", "--name", "pull")["runs"][0]["outcome"] == "completed"
    assert [image["digest"] for image in shell.json("images", "ls")["images"]] == [empty.digest]


@pytest.mark.parametrize("image", ["./near.tar", "oci-archive:near.tar"])
def test_an_image_beside_its_run_file_is_found(boxed: Shell, image: str) -> None:
    """Wherever the server works; in the file, and on the command line."""
    busybox_image().write_archive(boxed.directory / "near.tar")
    boxed.tarmac("run", run_file(boxed, "near", "command: test -e /bin/busybox\n", image=image), code=0)
    boxed.tarmac("run", "--image", image, "--", "test", "-e", "/bin/busybox", code=0)
    assert boxed.json("show", "near")["run"]["spec"]["environment"]["image"].endswith("/project/near.tar")


def test_a_run_goes_without_where_it_is_told_to(boxed: Shell) -> None:
    file = run_file(boxed, "without", "command: test -e /etc/debian_version -o -e /etc/os-release\n")
    boxed.tarmac("run", "--no-container", file, code=0)
    assert boxed.tarmac("run", file).returncode == 1


@pytest.mark.parametrize(
    ("use", "code", "text"), [("none", 0, "is not used"), ("required", 2, "images alone")]
)
def test_a_server_says_whether_images_are_used(shell: Shell, use: str, code: int, text: str) -> None:
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text(f"[containers]\nuse = '{use}'\n")
    image = "environment: {image: nowhere/at-all}\n" if use == "none" else ""
    done = shell.tarmac("run", shell.write("a.yaml", f"name: a\n{image}command: 'true'\n"), code=code)
    assert text in done.stderr


def test_images_are_listed_pulled_and_removed(boxed: Shell) -> None:
    """D11, M6: an image of a private registry, by secret; in use it stays; its digest is part of the run."""
    small = busybox_image(archive([("own", b"1")]))
    boxed.tarmac("secret", "set", "team", "--as", "registry", stdin=":".join(LOGIN), code=0)
    with registry(images={"team/own:1": small}, login=LOGIN) as double:
        image = f"{double.address}/team/own:1"
        pulled = boxed.tarmac("images", "pull", image, "--secret", "team", code=0)
        assert f"{image} is {small.digest}" in pulled.stderr
        asked = len(double.requests)
        file = run_file(boxed, "uses", "command: |\n  echo ready\n  sleep 600\n", image=image)
        boxed.tarmac("run", "-d", file, code=0)
        boxed.until("logs", "uses", said="ready")
        assert len(double.requests) == asked
        newer = busybox_image(archive([("own", b"2")]))
        double.images["team/own:1"] = newer
        boxed.tarmac("images", "pull", image, "--secret", "team", code=0)
        again = boxed.tarmac("images", "pull", image, "--secret", "team", code=0)
        assert f"{image} is {newer.digest}, which is here already" in again.stderr
        shown = {kept["digest"]: kept for kept in boxed.json("images", "ls")["images"]}
        assert shown[small.digest]["in_use"]
        assert not shown[newer.digest]["in_use"]
        assert shown[small.digest]["disk_bytes"] > 100_000
        refused = boxed.tarmac("images", "rm", small.digest)
        assert (refused.returncode, "a run uses" in refused.stderr) == (2, True)
        boxed.tarmac("images", "rm", newer.digest[7:19], code=0)
        wrong = boxed.tarmac("images", "pull", "Bad Name", code=2)
        assert wrong.stderr.startswith(
            "error: image: the name of a container image, without blanks, is expected"
        )
        assert "node elsewhere has no" in boxed.tarmac("images", "ls", "--node", "elsewhere", code=0).stderr
        boxed.tarmac("pause", "uses", "--wait", code=0)
        boxed.tarmac("images", "rm", small.digest, code=0)
        boxed.tarmac("images", "rm", small.digest, code=2)
    first = boxed.json("show", "uses")["attempts"][0]["milestones"]["image"]
    assert (first["digest"], first["source"]) == (small.digest, "")
    boxed.tarmac("stop", "uses", "--wait", code=0)
    pull = boxed.json("ls", "-a", "--name", "pull")["runs"][-1]
    said = boxed.json("show", pull["id"])["attempts"][0]["milestones"]["image"]
    assert (said["digest"], said["source"]) == (small.digest, double.address)
    assert said["fetched_bytes"] == said["total_bytes"] > 0
    assert LOGIN[1] not in everything_below(boxed.home / "runs")


def test_a_resumed_run_is_in_the_image_it_began_in(boxed: Shell) -> None:
    with registry(images={"moves:1": busybox_image(archive([("old", b"1")]))}) as double:
        old = double.images["moves:1"]
        body = "command: |\n  test -e /old || exit 9\n  echo ready\n  test -e /mnt/crud/again && exit 0\n"
        body += "  echo x > /mnt/crud/again\n  sleep 600\n"
        file = run_file(boxed, "moves", body, image=f"{double.address}/moves:1")
        boxed.tarmac("run", "-d", file, code=0)
        boxed.until("logs", "moves", said="ready")
        boxed.tarmac("pause", "moves", "--wait", code=0)
        double.images["moves:1"] = busybox_image(archive([("new", b"2")]))
        boxed.tarmac("images", "pull", f"{double.address}/moves:1", code=0)
        boxed.tarmac("resume", "moves", code=0)
        boxed.tarmac("wait", "moves", code=0)
    used = [each["milestones"]["image"]["digest"] for each in boxed.json("show", "moves")["attempts"]]
    assert used == [old.digest, old.digest]
    assert old.digest in boxed.tarmac("show", "moves").stdout


def everything_below(directory: Path) -> str:
    """All small files of runs, as one text."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.stat().st_size < 1_000_000)
    return "".join(path.read_bytes().decode("latin-1") for path in files)
