"""Kinds of providers: credentials, and the package that one of them needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from tarmac.model.burst.provider import ProviderRecord
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.providers.kinds import provider_kinds

SETTINGS = {"region": "eu-north-1", "image": "ami-12", "subnets": "subnet-12,subnet-34"}


def record(**credentials: str) -> ProviderRecord:
    return ProviderRecord(name="aws", kind="ec2", settings=SETTINGS, credentials=credentials, owner="o")


@pytest.mark.parametrize("given", [{"access_key": "a"}, {"secret_key": "a"}, {"token": "a"}])
def test_credentials_are_those_of_one_identity(given: dict[str, str]) -> None:
    kind = provider_kinds(lambda uses: {})["ec2"]
    with pytest.raises(InvalidInput, match="access_key and secret_key"):
        kind.check(record(**given))
    kind.check(record(access_key="a", secret_key="b"))
    kind.check(record())


def test_a_credential_that_cannot_be_read_is_no_refusal() -> None:
    """Nothing was rented; the secret may come back."""

    def missing(uses: Sequence[Any]) -> dict[str, str]:
        raise InvalidInput(f"there is no secret {uses[0].name!r}")

    opened = provider_kinds(missing)["ec2"].open(record(access_key="key", secret_key="other"))
    with pytest.raises(Unavailable, match="there is no secret 'key'"):
        opened.list()


def test_a_server_without_boto3_says_so_when_a_provider_is_added() -> None:
    code = f"""
import sys
from tarmac.model.burst.provider import ProviderRecord
from tarmac.model.errors import InvalidInput
from tarmac.providers.kinds import provider_kinds
sys.path[:] = [path for path in sys.path if "site-packages" not in path]
sys.path_importer_cache.clear()
try:
    provider_kinds(lambda uses: {{}})["ec2"].open(
        ProviderRecord(name="aws", kind="ec2", settings={SETTINGS!r}, owner="o")
    )
except InvalidInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "the provider ec2 needs the package 'boto3', and the server does not have it" in done.stdout
    assert f"install boto3 for {sys.executable}" in done.stdout


def test_no_server_loads_boto3_before_a_provider_needs_it() -> None:
    code = "import sys, tarmac.providers.kinds; print('boto3' in sys.modules, 'botocore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
