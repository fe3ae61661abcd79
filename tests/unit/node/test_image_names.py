"""Names of images in full, and what manifests and credentials say: `node/container`."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tarmac.node.container import failures
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.manifests import choose, read_config, read_manifest
from tarmac.node.container.reference import absolute, is_loopback, local_path, parse
from tarmac.node.container.registry import Login, read_login

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("docker://ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("mosaicml/pytorch:latest", "docker.io/mosaicml/pytorch:latest"),
        ("ghcr.io/team/train:3", "ghcr.io/team/train:3"),
        ("localhost:5000/a", "localhost:5000/a:latest"),
        ("registry.example.org:5000/a/b/c:1_2", "registry.example.org:5000/a/b/c:1_2"),
        (f"a/b@{DIGEST}", f"docker.io/a/b@{DIGEST}"),
        (f"a/b:1@{DIGEST}", f"docker.io/a/b:1@{DIGEST}"),
        ("index.docker.io/library/busybox:1", "docker.io/library/busybox:1"),
    ],
)
def test_a_name_in_full(name: str, full: str) -> None:
    assert str(parse(name)) == full


@pytest.mark.parametrize(
    "name",
    [
        "",
        "UPPER/case",
        "a b",
        "a:",
        "a:b:c",
        "../a",
        "a/../b",
        "a@sha256:short",
        "-x/y",
        "a:-t",
    ],
)
def test_what_is_no_name_is_refused_with_an_example(name: str) -> None:
    with pytest.raises(ImageProblem) as refused:
        parse(name)
    assert refused.value.kind == failures.UNKNOWN_IMAGE
    assert "pytorch/pytorch" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("box.tar", "a file begins with '/' or './': './box.tar'"),
        ("images/train.sif", "'./images/train.sif'"),
        ("http://x.org/y", "leave http:// out"),
        ("library://team/train", "Apptainer alone fetches it"),
        ("sha256:aabb", "a digest stands behind a name"),
        ("10.0.0.1:5000", "such as pytorch"),
    ],
)
def test_what_is_something_else_is_refused_with_what_to_write(name: str, hint: str) -> None:
    """Docker Hub would be asked for some of them; on a machine without a network they would be left out."""
    with pytest.raises(ImageProblem) as refused:
        parse(name)
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize("password", ["lovelace", "love@lace"])
@pytest.mark.parametrize("scheme", ["", "https://"])
def test_credentials_in_a_name_are_in_no_message(scheme: str, password: str) -> None:
    with pytest.raises(ImageProblem) as refused:
        parse(f"{scheme}ada:{password}@registry.example.org/team/train")
    assert "lace" not in f"{refused.value.message} {refused.value.hint}"


def test_a_file_is_looked_for_from_the_directory_of_its_run_file() -> None:
    assert absolute("./a/../box.tar", "/home/ada") == "/home/ada/box.tar"
    assert absolute("oci-archive:box.tar", "/home/ada") == "oci-archive:/home/ada/box.tar"
    assert absolute("/images/box.tar", "/home/ada") == "/images/box.tar"
    assert absolute("ubuntu", "/home/ada") == "ubuntu"


def test_paths_are_images_of_the_node() -> None:
    assert local_path("oci-archive:/a/b.tar") == "/a/b.tar"
    assert local_path("./here") == "./here"
    assert local_path("ubuntu") is None


def test_plain_http_is_for_registries_of_this_machine_alone() -> None:
    assert all(map(is_loopback, ("localhost", "localhost:5000", "127.0.0.1:5000", "[::1]:5000")))
    assert not any(map(is_loopback, ("localhost.example.org", "10.0.0.1:5000", "docker.io")))


def test_the_manifest_for_this_machine_is_chosen_of_several() -> None:
    index = {"manifests": [_entry("arm64", "b"), _entry("amd64", "c"), _entry("unknown", "d", "unknown")]}
    assert choose(index, "x86_64", "x") == "sha256:" + "c" * 64
    assert choose(index, "aarch64", "x") == "sha256:" + "b" * 64
    with pytest.raises(ImageProblem) as refused:
        choose(index, "s390x", "train:1")
    assert (refused.value.kind, refused.value.hint) == (
        failures.ARCHITECTURE,
        "it is there for linux/amd64, linux/arm64",
    )
    assert choose({}, "x86_64", "x") is None


def test_an_image_for_another_machine_is_refused() -> None:
    with pytest.raises(ImageProblem, match="is for linux/arm64, this node is amd64"):
        read_config({"architecture": "arm64", "os": "linux"}, "x86_64", "x")


def test_variables_of_an_image_that_are_ours_are_dropped() -> None:
    env = ["PATH=/opt/bin", "TARMAC_RUN_ID=x", "BAD NAME=1", "EMPTY=", "A=b=c", "Z=\0"]
    found = read_config({"config": {"Env": env, "Entrypoint": ["/x"]}}, "x86_64", "x")
    assert found == {"PATH": "/opt/bin", "EMPTY": "", "A": "b=c"}


@pytest.mark.parametrize(
    "content",
    [{}, {"schemaVersion": 1}, {"schemaVersion": 2, "config": {"digest": "sha256:../../x"}, "layers": []}],
)
def test_a_strange_manifest_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(ImageProblem) as refused:
        read_manifest(content)
    assert refused.value.kind == failures.DAMAGED


def test_credentials_are_a_pair_or_what_docker_login_writes() -> None:
    auth = base64.b64encode(b"ada:p:w").decode()
    written = json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": auth}, "r:5000": {"auth": auth}}})
    assert read_login("ada:p:w", "anything") == Login("ada", "p:w")
    assert read_login(written, "docker.io") == Login("ada", "p:w")
    assert read_login(written, "r:5000") == Login("ada", "p:w")
    assert read_login(written, "other") is None
    with pytest.raises(ValueError, match="user:password"):
        read_login("token", "r")


def _entry(architecture: str, letter: str, system: str = "linux") -> dict[str, Any]:
    return {"digest": "sha256:" + letter * 64, "platform": {"architecture": architecture, "os": system}}
