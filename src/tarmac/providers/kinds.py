"""All kinds of providers, by name. Called by `server/wiring.py`."""

from collections.abc import Mapping

from tarmac.model.burst.provider import ProviderKind
from tarmac.model.secret import SecretValues
from tarmac.providers.ec2.kind import Ec2Kind
from tarmac.providers.machines import MachinesKind


def provider_kinds(secrets: SecretValues) -> Mapping[str, ProviderKind]:
    """The kinds; `secrets` has the values of credentials."""
    return {"ec2": Ec2Kind(secrets), "machines": MachinesKind(secrets)}
