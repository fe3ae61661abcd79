"""The launch files of other systems in their images: as their documents print them, with images made here.

The images lie in a real registry, which stands for the ones that the files name as their mirror.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from images import archive, build, busybox_image, busybox_layer
from real_registry import RealRegistry, real_registry
from shell import Shell
from small_bases import apt_layer, python_layer, write_sif
from training_images import PYTHON_PATH

pytestmark = pytest.mark.real_engine

GOOD = Path(__file__).parents[1] / "golden/dialects"
SETTINGS = """
[containers]
mirrors = {{ "docker.io" = "{mirror}" }}
[determined.task_container_defaults]
image = "determinedai/environments:cuda-11.3-pytorch-1.12"
"""
TORCHRUN = b"#!/bin/sh\necho $NODE_RANK $(cat /etc/own) $*\necho changed by $NODE_RANK >> /etc/own\n"
SCRIPT = "import os, sys\nprint(sys.argv[1:], os.environ['DEFINED'], os.getuid(), open('/etc/base').read())\n"
HOOK = "export DEFINED=by-the-hook\ntest -e /run/determined/workdir/script.py\n"
PROJECT = """name: digits
entry_points:
  main:
    command: "python train.py --alpha 0.5"
"""
APT = """name: installs
image: team/debian:12
compute: {gpus: 0}
integrations:
- integration_type: apt_packages
  packages: [digits-tool]
command: |
  digits-tool
  cd /workspace && id -u && cat /etc/base
"""


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRegistry]:
    """A registry with the images that the files name, by these names."""
    with real_registry(tmp_path_factory.mktemp("mirror")) as found:
        found.push("library/bash", "latest", busybox_image(archive([("etc/base", b"bash")])))
        base = python_layer(tmp_path_factory.mktemp("python") / "root")
        for name, tag in (("determinedai/environments", "cuda-11.3-pytorch-1.12"), ("team/custom", "3")):
            marked = archive([("etc/base", name.encode())])
            found.push(name, tag, build(busybox_layer(), base, marked, env=[f"PATH={PYTHON_PATH}"]))
        debian = apt_layer(tmp_path_factory.mktemp("debian") / "root", "digits-tool")
        found.push("team/debian", "12", busybox_image(debian, archive([("etc/base", b"debian")])))
        yield found


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, mirror: RealRegistry) -> Iterator[Shell]:
    """A user of a server that knows the mirror."""
    directory = tmp_path_factory.mktemp("documents")
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    shell.home.mkdir(mode=0o700)
    (shell.home / "settings.toml").write_text(SETTINGS.format(mirror=mirror.address))
    yield shell
    shell.close()


def printed(text: str) -> list[str]:
    """What workers wrote, without their names."""
    return [line.partition("| ")[2] or line for line in text.splitlines()]


def test_every_node_of_the_iscs_example_has_its_own_copy_of_the_container(user: Shell) -> None:
    """I5: with the virtual environment and the project at their places below /root, in the container."""
    container = archive(
        [
            ("root/.fashion/bin/activate", b"export PATH=/root/.fashion/bin:$PATH\n"),
            ("root/.fashion/bin/torchrun", TORCHRUN),
            ("root/isc-demos/fashion_mnist/train.py", b""),
            ("etc/own", b"fresh\n"),
        ]
    )
    image = busybox_image(container).write_archive(user.directory / "container.tar")
    user.write("fashion.isc", (GOOD / "isc/good/document-example.isc").read_text())
    done = user.tarmac("run", "fashion.isc", "--rehearse", "12x6", "--image", str(image), code=0)
    lines = printed(done.stdout)
    assert {line.split(" ", 1)[0] for line in lines} == {str(rank) for rank in range(8)}
    assert all(
        re.match(r"\d fresh --nnodes=8 --nproc-per-node=6 .* train\.py --lr 0\.001", line) for line in lines
    )
    assert all(
        line.endswith("--save-dir /mnt/checkpoints --tboard-path /mnt/checkpoints/tb") for line in lines
    )
    assert not Path("/root/.fashion").exists()


def test_mclis_own_example_runs_in_its_image(user: Shell, mirror: RealRegistry) -> None:
    """M6, M9: `image: bash`, from the mirror of Docker Hub; its digest is part of the run."""
    user.write("hello.yaml", (GOOD / "mcli/good/hello-world.yaml").read_text())
    done = user.tarmac("run", "hello.yaml", "--rehearse", "1x8", code=0)
    assert printed(done.stdout)[-2:] == ["Start", "Hello World!!"]
    assert "is not used" not in done.stderr
    (run,) = user.json("ls", "-a", "--label", "system=mcli")["runs"] or user.json("ls", "-a")["runs"][:1]
    image = user.json("show", run["id"])["attempts"][0]["milestones"]["image"]
    assert image["source"] == mirror.address
    table = user.tarmac("ls", "-a", "--columns", "name,image,digest", code=0).stdout
    assert re.search(rf"hello-world-\S+ +bash +{image['digest'][:19]}", table), table


def test_an_mcli_file_installs_packages_in_its_image(user: Shell) -> None:
    """M6, M8: apt_packages by the image's own apt, as root, gone with the attempt; /workspace is the run."""
    done = user.tarmac("run", user.write("installs.yaml", APT), code=0)
    assert printed(done.stdout)[-3:] == ["digits-tool is installed", "0", "debian"]
    assert not Path("/usr/bin/digits-tool").exists()


@pytest.mark.parametrize(
    ("image", "base"),
    [
        ("", "determinedai/environments"),
        ("environment: {image: team/custom:3}\n", "team/custom"),
        ("environment: {image: {cpu: team/custom:3, cuda: team/other:1}}\n", "team/custom"),
    ],
)
def test_determineds_default_and_custom_image_with_a_startup_hook(user: Shell, image: str, base: str) -> None:
    """D11: the entry point of the document, its hook before it, as root in the work directory."""
    config = (GOOD / "determined/good/document-custom-script.yaml").read_text()
    slots = "resources: {slots_per_trial: 0}\n" if "cpu" in image else ""
    user.write("context/const.yaml", f"name: digits\n{config}{image}{slots}max_restarts: 0\n")
    user.write("context/script.py", SCRIPT)
    user.write("context/startup-hook.sh", HOOK)
    done = user.tarmac("experiment", "create", "context/const.yaml", "context", "-f", code=0)
    assert printed(done.stdout)[-1] == f"['arg1', 'arg2'] by-the-hook 0 {base}"


def test_mantiks_example_names_the_missing_apptainer(user: Shell, tmp_path: Path) -> None:
    """K2: a rehearsal without Apptainer continues without `image.sif`; a native run is refused."""
    if shutil.which("apptainer") or shutil.which("singularity"):
        pytest.skip("Apptainer is installed")
    user.write("mantik/MLproject", PROJECT)
    user.write("mantik/train.py", "import os, sys\nprint(os.environ['TEST_ENV_VAR'], sys.argv[1:])\n")
    image = write_sif(user.directory / "mantik/image.sif", tmp_path)
    config = user.write("mantik/backend.yaml", (GOOD / "mantik/good/document-example.yaml").read_text())
    lines = printed(user.tarmac("run", config, "--rehearse", "2x1", code=0).stdout)
    assert "variable value ['--alpha', '0.5']" in lines, lines
    missing = "is an image of Apptainer, and neither apptainer nor singularity is installed here"
    assert any("without the image image.sif: " in line and missing in line for line in lines), lines
    native = f"name: native\nenvironment: {{image: {image}}}\ncommand: cat /etc/base\n"
    refused = user.tarmac("run", user.write("native.yaml", native))
    assert refused.returncode != 0
    assert f"{image} {missing}" in refused.stderr
    assert "name the image of a registry that it was made of" in refused.stderr
