"""The kind of provider for `kind: ec2`. Made by `kinds`."""

import sys
from functools import partial
from importlib.util import find_spec

from tarmac.model.burst.provider import Provider, ProviderRecord
from tarmac.model.errors import InvalidInput
from tarmac.model.secret import SecretValues
from tarmac.providers.accounts import credential_values
from tarmac.providers.ec2 import settings


class Ec2Kind:
    """Opens the adapters of EC2 accounts."""

    def __init__(self, secrets: SecretValues) -> None:
        self._secrets = secrets

    def check(self, record: ProviderRecord) -> None:
        """Raise InvalidInput for settings of no EC2 account, and without boto3."""
        settings.check(record)
        if find_spec("boto3") is None:
            raise InvalidInput(
                "the provider ec2 needs the package 'boto3', and the server does not have it",
                hint=f"install boto3 for {sys.executable}",
            )

    def open(self, record: ProviderRecord) -> Provider:
        """The adapter of an account. Raises InvalidInput as `check` does."""
        self.check(record)
        from tarmac.providers.ec2.adapter import Ec2Provider  # noqa: PLC0415 - boto3 is an extra

        return Ec2Provider(record.settings, partial(credential_values, record, self._secrets))
