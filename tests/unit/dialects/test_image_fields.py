"""How an image is fetched, and by whose credentials: in native files and those of Determined."""

from __future__ import annotations

import pytest

from tarmac.dialects.native.reader import write
from tarmac.launch.compose import container_launch, secret_launches
from tarmac.model.secret import SecretForm, SecretUse, registry_secrets
from tarmac.model.spec import RunSpec
from tarmac.node.attempt.document import SecretLaunch
from tarmac.systems.registry import read

DETERMINED = """
name: d
entrypoint: echo hello
searcher: {name: single, metric: loss, max_length: {batches: 1}}
"""


def determined(text: str) -> RunSpec:
    return read(DETERMINED + text, filename="d.yaml", directory="/w", dialect="determined").spec


def test_a_run_file_says_how_its_image_is_fetched() -> None:
    """I5: and it is written back."""
    text = "command: echo\nenvironment: {image: x/y:1, pull: always, shared_memory: 8GiB}\n"
    text += "secrets: [{name: team, as: registry}]\n"
    spec = read(text, filename="run.yaml", directory="/w").spec
    launch = container_launch(spec)
    assert launch is not None
    assert (launch.pull, launch.shared_memory_bytes, launch.credentials) == ("always", 8 << 30, ("team",))
    again = read(write(spec), filename="run.yaml", directory="/w").spec
    assert (again.environment, again.secrets) == (spec.environment, spec.secrets)


def test_nothing_in_a_run_sees_a_secret_for_its_pull() -> None:
    uses = [SecretUse(name="d", form=SecretForm.DOCKER), SecretUse(name="r", form=SecretForm.REGISTRY)]
    assert registry_secrets(uses) == ("r", "d")
    assert secret_launches(uses)[1] == SecretLaunch(name="r")


def test_determined_fields_of_images_are_honoured() -> None:
    """D11"""
    spec = determined(
        "environment:\n  image: x/y:1\n  force_pull_image: true\n"
        "  registry_auth: {username: ada, password: '${{ secrets.team }}'}\n"
        "resources: {shm_size: 4g}\n"
    )
    assert (spec.environment.pull_always, spec.environment.shared_memory_bytes) == (True, 4 << 30)
    assert spec.secrets == (SecretUse(name="team", form=SecretForm.REGISTRY),)


@pytest.mark.parametrize(
    ("amount", "size_bytes"),
    [("1073741824", 1 << 30), ("512MiB", 512 << 20), ("1.5 GB", 3 << 29), (".5g", 1 << 29), ("0", None)],
)
def test_sizes_of_shared_memory_are_as_determined_writes_them(amount: str, size_bytes: int | None) -> None:
    assert determined(f"resources: {{shm_size: {amount}}}\n").environment.shared_memory_bytes == size_bytes


def test_a_password_in_the_file_is_no_credential_and_nobody_repeats_it() -> None:
    reading = read(
        DETERMINED + "environment: {registry_auth: {username: ada, password: lovelace}}\n",
        filename="d.yaml",
        directory="/w",
        dialect="determined",
    )
    assert reading.spec.secrets == ()
    assert "lovelace" not in str(reading.spec.conventions)
    assert any("--as registry" in warning for warning in reading.warnings)
    assert not any("lovelace" in warning for warning in reading.warnings)
