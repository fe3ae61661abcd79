"""The credentials of an account, and findings about it, as every kind has them. Called by the adapters."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tarmac.model.burst.provider import ProviderRecord, RentedThing, RentRefused, ThingState
from tarmac.model.cluster import Finding
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.secret import SERVER, SecretUse, SecretValues


def credential_values(record: ProviderRecord, secrets: SecretValues) -> Mapping[str, str]:
    """The present credentials of a provider, by their use. Raises Unavailable."""
    try:
        found = secrets([SecretUse(name=secret, scope=SERVER) for secret in record.credentials.values()])
    except InvalidInput as error:
        raise Unavailable(error.message, hint=error.hint) from None
    return {use: found[secret].strip() for use, secret in record.credentials.items()}


def finding(what: str, check: Callable[[], str]) -> Finding:
    """The finding of a check, which returns its text or raises the failure."""
    try:
        return Finding(what=what, ok=True, text=check())
    except (RentRefused, Unavailable) as error:
        return Finding(what=what, ok=False, text=str(error))


def counted(things: Sequence[RentedThing]) -> str:
    """The things of an account that cost money, in words."""
    found = Counter(each.kind.value for each in things if each.state is not ThingState.GONE)
    return ", ".join(f"{kind}: {count}" for kind, count in sorted(found.items())) or "nothing is rented"
