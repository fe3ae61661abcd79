"""What every program that makes containers promises, as an ordinary user: one suite over all of them.

Apptainer is a stand-in that executes; Podman is a real one, where it is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attempts import (
    AttemptDirectory,
    Warm,
    copy_of_node,
    is_running,
    wait_until,
    warm_parent,
    worker,
    write_attempt,
)
from images import BUSYBOX, archive, busybox_image, special
from small_bases import write_shell, write_sif
from tarmac.node.attempt.protocol import TOKEN_VARIABLE
from tarmac.node.container import drivers
from tarmac.node.container.drivers import APPTAINER, AUTO, OWN, PODMAN, Facts

pytestmark = pytest.mark.heavy

USER = 65534
PYTHON = "/usr/bin/python3"
STANDIN = Path(__file__).parents[2] / "support/standin_apptainer.py"
NO_NAMESPACES = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'


@dataclass
class Node:
    """A place that an ordinary user owns, with an image, and a warm parent of that user."""

    place: Path
    warm: Warm
    driver: str

    def attempt(self, script: str, **fields: Any) -> AttemptDirectory:
        """An attempt that runs a script in the image, ready to be run."""
        image, images = str(self.place / "box.tar"), str(self.place / "images")
        part = {"image": image, "images": images, "driver": self.driver, **fields.pop("container", {})}
        command = {**worker(script), "env": {"OF_RUN": 'given, = with "quotes"'}}
        made = write_attempt(self.place, [command], sdk=None, container=part, setup_env={}, **fields)
        for path in (made.path, made.path / "logs", made.path / "news"):
            os.chown(path, USER, USER)
        return made


@contextmanager
def node(driver: str, *, without: str | None = None, path: str = "") -> Iterator[Node]:
    """A node for that driver; `without`: a script that takes something from the user first."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None or not Path(PYTHON).exists():
        pytest.skip("needs root and setpriv to become somebody else, and an interpreter for everybody")
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        place.chmod(0o755)
        os.chown(place, USER, USER)
        (place / "bin").mkdir()
        lower = archive([("etc/old", b"old"), ("opt/tool", b"#!/bin/sh\necho tool\n")])
        upper = archive(
            [("etc/.wh.old", b""), ("etc/new", b"new"), ("link", special(tarfile.SYMTYPE, link="opt"))]
        )
        busybox_image(lower, upper, env=["PATH=/opt:/bin", "OF_IMAGE=yes"]).write_archive(place / "box.tar")
        if driver == APPTAINER:
            program = place / "bin/apptainer"
            program.write_text(f'#!/bin/sh\nexec {PYTHON} -I -S {place}/standin.py "$@"\n')
            program.chmod(0o755)
            shutil.copy(STANDIN, place / "standin.py")
        prefix = [setpriv, f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        prefix += ["env", f"PATH={place}/bin:{path or os.defpath}", f"HOME={place}", f"TMPDIR={place}"]
        if without is not None:
            prefix += [
                shutil.which("unshare") or "unshare",
                "--user",
                "--map-root-user",
                "sh",
                "-c",
                without,
                "sh",
            ]
            prefix += [setpriv, "--bounding-set=-all", "--inh-caps=-all"]
        package = copy_of_node(place)
        with warm_parent(PYTHON, prefix=prefix, package=package) as warm:
            yield Node(place, warm, driver)


@pytest.fixture(params=[OWN, APPTAINER])
def box(request: pytest.FixtureRequest) -> Iterator[Node]:
    with node(request.param) as made:
        yield made


def test_a_command_finds_what_it_is_promised(box: Node) -> None:
    """I5: the image's files, variables, user, directories, shared memory and mounts."""
    script = (
        "tool; echo $OF_IMAGE $OF_RUN; id -u; cat /etc/new; echo; test ! -e /etc/old && pwd\n"
        "touch /dev/shm/x /mnt/crud/kept here && test ! -e /etc/debian_version && echo written\n"
        "exit 7"
    )
    attempt = box.attempt(script, files={"given": "text"})
    ended = box.warm.run(attempt)
    assert ended["cause"].get("exit_code") == 7, ended
    lines = attempt.log().splitlines()
    assert lines[0] == "tool"
    assert lines[1:3] == ['yes given, = with "quotes"', "0"]
    assert lines[3:] == ["new", str(attempt.path / "nodes/n0/work"), "written"]
    assert (Path(attempt.artifacts["crud"]) / "kept").stat().st_uid == USER
    roots = attempt.path / "roots/n0"
    wait_until(lambda: not roots.exists() or None, "what was written in the container stays")
    assert (box.place / "images").stat().st_uid == USER


def test_an_end_is_told_as_it_was(box: Node) -> None:
    """A signal of the program's own, and a command that is not there; files at literal paths, read-only."""
    killed = box.warm.run(box.attempt("kill -9 $$"))
    assert killed["cause"].get("signal") == "SIGKILL", killed
    missing = box.attempt("")
    told = json.loads((missing.path / "attempt.json").read_text())
    told["nodes"][0]["workers"][0]["argv"] = ["no-such-program"]
    (missing.path / "attempt.json").write_text(json.dumps(told))
    assert box.warm.run(missing)["cause"]["exit_code"] == 127
    mounts = [{"source": "given", "target": "/mnt/given", "read_only": True, "variables": []}]
    literal = box.attempt("cat /mnt/given; echo x > /mnt/given", files={"given": "text\n"}, mounts=mounts)
    assert box.warm.run(literal)["cause"]["exit_code"] != 0
    assert literal.log().splitlines()[0] == "text"


def test_a_signal_reaches_the_program_and_its_end_that_of_all(box: Node) -> None:
    """A pause is heard by the program itself; a daemon that left its session ends with it."""
    script = (
        "setsid sh -c 'echo $$ > /mnt/crud/daemon; while true; do sleep 0.1; done' &\n"
        "until test -s /mnt/crud/daemon; do sleep 0.1; done\n"
        "trap 'echo leaving; exit 0' TERM; echo ready; while true; do sleep 0.1; done"
    )
    attempt = box.attempt(script)
    box.warm.start(attempt, "n0")
    attempt.wait_for("worker_started")
    attempt.wait_for_line("ready")
    attempt.ask("pause")
    assert attempt.ended()["outcome"] == "paused"
    assert attempt.log().splitlines()[-1] == "leaving"
    assert not daemons_of(attempt)


IN_PODMAN = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tarmac.node.container import drivers, making, root
from tarmac.node.container.entry import ContainerImage
shown = root.Root(sys.argv[3], layers=(sys.argv[2],))
request = making.Request(shown, str, ContainerImage({}, {}, "key"), "TOKEN")
made = making.make(drivers.PODMAN, drivers.survey(), request, print)
pid = os.fork()
if pid == 0:
    made.enter()
    os.execv("/bin/sh", ["sh", "-c", "id -u; cat /proc/self/uid_map; echo x > /new; exit 7"])
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
made.close()
made.clear(sys.argv[3])
print(code, os.path.exists(sys.argv[3]))
"""


@pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")
def test_a_container_in_the_user_namespace_of_a_real_podman() -> None:
    """As on a system that keeps user namespaces for chosen programs: ours is made in Podman's."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None or not Path(PYTHON).exists():
        pytest.skip("needs root and setpriv to become somebody else, and an interpreter for everybody")
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        place.chmod(0o755)
        copy_of_node(place)
        (place / "root/bin").mkdir(parents=True)
        shutil.copy(BUSYBOX, place / "root/bin/sh")
        for path in (place, *place.glob("root/**/*"), place / "root"):
            os.chown(path, USER, USER)
        user = [setpriv, f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        script = [PYTHON, "-I", "-S", "-c", IN_PODMAN, directory, f"{place}/root", f"{place}/above"]
        env = {"HOME": directory, "PATH": os.defpath}
        earlier = {**env, "XDG_RUNTIME_DIR": f"{directory}/earlier"}  # what Podman keeps is there from now on
        (place / "earlier").mkdir(mode=0o700)
        os.chown(place / "earlier", USER, USER)
        subprocess.run([*user, "podman", "info"], env=earlier, capture_output=True, check=False)
        for pid in processes_below(place):
            os.kill(int(pid), signal.SIGKILL)
        done = subprocess.run([*user, *script], env=env, capture_output=True, text=True, check=False)
        assert done.stdout.split() == ["0", "0", str(USER), "1", "7", "False"], done.stderr
        assert not processes_below(place), "what Podman keeps for its next command stays"


def test_a_node_with_nothing_that_makes_containers_says_so() -> None:
    """A machine without namespaces, Podman and Apptainer: the run ends with the reason of each."""
    with node(AUTO, without=NO_NAMESPACES, path="/bin") as bare:
        ended = bare.warm.run(bare.attempt("true"))
    assert ended["outcome"] == "failed"
    assert ended["cause"]["code"] == "setup_failed"
    for text in ("tarmac itself: ", "users may make no namespaces here", "`tarmac doctor`", "--no-container"):
        assert text in ended["cause"]["message"], ended


def test_apptainer_runs_its_own_image() -> None:
    """K2: the image's file is passed to Apptainer; a command that only the image has starts."""
    with node(APPTAINER) as made:
        write_shell(made.place / "files")
        (made.place / "files/etc/base").write_text("image.sif")
        image = str(write_sif(made.place / "image.sif", made.place / "files"))
        attempt = made.attempt("cat /etc/base; kill -9 $$", container={"image": image, "driver": AUTO})
        ended = made.warm.run(attempt)
        assert ended["cause"].get("signal") == "SIGKILL", ended
        assert attempt.log().strip() == "image.sif"


def test_an_image_of_apptainer_needs_apptainer() -> None:
    """K2: the run ends with an error that says so and what to do."""
    with node(OWN) as bare:
        image = str(write_sif(bare.place / "image.sif", bare.place))
        ended = bare.warm.run(bare.attempt("true", container={"image": image, "driver": AUTO}))
    assert ended["cause"]["code"] == "image_pull", ended
    for text in (
        image,
        "neither apptainer nor singularity is installed",
        "install Apptainer on the node, or",
    ):
        assert text in ended["cause"]["message"], ended


def test_the_next_driver_is_taken_where_the_first_cannot() -> None:
    every = Facts({PODMAN: "/usr/bin/podman", APPTAINER: "/usr/bin/apptainer"}, root=False)
    assert drivers.choose(AUTO, every) == (OWN, PODMAN, APPTAINER)
    assert drivers.choose(AUTO, every._replace(root=True)) == (OWN, APPTAINER)
    assert drivers.choose(APPTAINER, every) == (APPTAINER,)
    assert drivers.choose(PODMAN, Facts({}, root=False)) == ()
    told = drivers.explain(AUTO, Facts({}, root=False), {OWN: "it is forbidden"})
    assert told == (
        "tarmac itself: it is forbidden; podman: podman is not installed; "
        "apptainer: apptainer or singularity is not installed"
    )


def processes_below(place: Path) -> list[str]:
    """Processes whose environment names a directory below a place."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += [path.parent.name] if f"={place}/".encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


def daemons_of(attempt: AttemptDirectory) -> list[int]:
    """Processes that carry the token of an attempt."""
    token = f"{TOKEN_VARIABLE}={attempt.told['token']}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if token in path.read_bytes().split(b"\0") and is_running(int(path.parent.name)):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
