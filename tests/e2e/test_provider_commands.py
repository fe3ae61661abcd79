"""The commands in docs/operating/providers.md rent machines, through the real terraform."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ec2_proxy import KEY
from ec2_server import IMAGE, moto_server
from fake_provider import CREATE, DELETE, LIST
from guides import BLOCK, page
from provider_harness import OWNER, Ec2Harness
from tarmac.model.burst.provider import Provider, ProviderRecord, Refusal, RentRefused, ThingState
from tarmac.providers.kinds import provider_kinds

MIRROR = Path("/opt/tf-plugins")
"""Plug-ins of terraform on this machine; elsewhere they come from its registry."""

OFFLINE = """
provider "aws" {
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  skip_requesting_account_id  = true
}
"""

pytestmark = [pytest.mark.timeout(900), pytest.mark.heavy]


@pytest.fixture
def ec2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ec2Harness]:
    """An account of EC2."""
    with moto_server(tmp_path_factory.mktemp("moto")) as port:
        made = Ec2Harness(port)
        yield made
        made.close()


def rent(directory: Path, ec2: Ec2Harness) -> Provider:
    """A provider whose commands are those of the page, for that account."""
    files = {
        block.partition("\n")[0].removeprefix("# "): block
        for _, language, block in BLOCK.findall(page("operating/providers.md"))
        if language in ("python", "terraform")
    }
    for name, text in files.items():
        (directory / name).write_text(text)
    program = directory / "rent.py"
    text = program.read_text()
    copied = 'shutil.copy(HERE / "main.tf", directory)'
    assert copied in text
    program.write_text(text.replace(copied, f'{copied}; shutil.copy(HERE / "main_override.tf", directory)'))
    (directory / "main_override.tf").write_text(OFFLINE)
    settings = directory / "terraformrc"
    settings.write_text(f'provider_installation {{\n  filesystem_mirror {{ path = "{MIRROR}" }}\n}}\n')
    variables = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL_EC2": ec2.url,
        "TF_CLI_CONFIG_FILE": str(settings),
        "TF_VAR_image": IMAGE,
        "TF_VAR_subnet": ec2.subnets[0],
    }
    record = ProviderRecord(
        name="tf",
        kind="machines",
        settings={name: f"{sys.executable} {program} {name}" for name in (CREATE, LIST, DELETE)},
        credentials={name: name.lower().replace("_", "-") for name in variables},
        owner=OWNER,
    )
    values = {record.credentials[name]: value for name, value in variables.items()}
    return provider_kinds(lambda uses: {each.name: values[each.name] for each in uses})["machines"].open(
        record
    )


@pytest.mark.skipif(shutil.which("terraform") is None, reason="needs terraform")
@pytest.mark.skipif(
    not MIRROR.is_dir() and "CI" not in os.environ, reason="needs terraform's plug-in for AWS"
)
def test_terraform_rents_lists_and_deletes(tmp_path: Path, ec2: Ec2Harness) -> None:
    provider = rent(tmp_path, ec2)
    ec2.knobs.capacity[ec2.machine] = 0
    with pytest.raises(RentRefused) as refused:
        provider.create(ec2.request("request-0"))
    assert refused.value.refusal is Refusal.NO_CAPACITY

    ec2.knobs.capacity.clear()
    made = provider.create(ec2.request(machines=2))
    assert {(each.state, each.owner, each.request) for each in made} == {
        (ThingState.RUNNING, OWNER, "request-1")
    }
    assert all(each.address for each in made)
    assert {each.id for each in provider.create(ec2.request(machines=2))} == {each.id for each in made}

    ec2.shut_down(made[0].id)
    assert [each.id for each in provider.list() if each.state is not ThingState.GONE] == [made[1].id]
    provider.delete(made)
    assert provider.list() == ()
    assert ec2.books.left() == []
