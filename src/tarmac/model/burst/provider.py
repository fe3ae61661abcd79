"""The port of providers, which rent out machines, as guarantees that adapters must keep.

Implemented by the packages below `providers`; `control` calls it. One contract suite
(tests/contract/test_provider.py) runs over every adapter and the fake of the tests.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from tarmac.model.burst.shapes import Shape
from tarmac.model.errors import Refused, TarmacError

if TYPE_CHECKING:
    from tarmac.model.cluster import Finding


class Refusal(StrEnum):
    """Why a provider rents out nothing. Only DENIED and INVALID are the fault of a setting."""

    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"
    UNKNOWN_SHAPE = "unknown_shape"
    DENIED = "denied"
    INVALID = "invalid"


class RentRefused(Refused):
    """The provider rents out nothing for this request: nothing exists, and nothing will appear."""

    def __init__(self, code: Refusal, message: str) -> None:
        super().__init__(message)
        self.refusal = code


class AnswerLost(TarmacError):
    """The answer of the provider is not known: the request may have been carried out, or may still be."""


class ThingKind(StrEnum):
    """The kind of a rented thing; each costs money until it is deleted."""

    MACHINE = "machine"
    DISK = "disk"
    ADDRESS = "address"


class ThingState(StrEnum):
    """The state of a rented thing. Each but GONE costs money; a GONE one may be listed or not."""

    PENDING = "pending"
    RUNNING = "running"
    LEAVING = "leaving"
    GONE = "gone"


class RentedThing(Struct, frozen=True, kw_only=True):
    """A thing in the account of a provider, as it was last listed.

    `owner`, `request` and `run` are its tags; None in things that tarmac did not create. `address` is the one
    that SSH reaches, `inner_address` the one at which its neighbours do (None: the same). `notice_at` is when
    the provider will take it back, once it has said so. `since` is when it was created, if known. `gone_at`
    is when it was first found to be gone; no provider sets it.
    """

    kind: ThingKind = ThingKind.MACHINE
    id: str
    state: ThingState
    owner: str | None = None
    request: str | None = None
    run: str | None = None
    address: str | None = None
    inner_address: str | None = None
    since: float | None = None
    notice_at: float | None = None
    gone_at: float | None = None


class RentRequest(Struct, frozen=True, kw_only=True):
    """A request for `machines` equal machines in one place, all or none.

    `id` is unique and goes with the request as its tag, and as its token of idempotency where the provider
    has one; so do `owner` and `run`. Each machine runs `script` (POSIX sh, as root) at its first start: it
    admits the server's key, and shuts the machine down in silence and at its limit.
    """

    id: str
    owner: str
    run: str
    shape: Shape
    machines: int
    script: str

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of every thing that it creates."""
        return {"tarmac-owner": self.owner, "tarmac-request": self.id, "tarmac-run": self.run}


class ProviderTerms(Struct, frozen=True, kw_only=True):
    """A provider and its kind, which reads the `settings`.

    `credentials` name the secrets for its access, never their values.
    """

    name: str
    kind: str
    settings: Mapping[str, str] = field(default_factory=dict)
    credentials: Mapping[str, str] = field(default_factory=dict)


class ProviderRecord(ProviderTerms, frozen=True, kw_only=True):
    """A provider as an administrator added it.

    `owner` is the tag of everything that is rented through it; it is made when the provider is added, and new
    after a restore elsewhere.
    """

    owner: str
    added_by: str = ""


class Provider(Protocol):
    """An account of a provider. Any thread may call it; a call may take long, and holds no lock of ours.

    Every method raises Unavailable if nothing was done and a later try may succeed (throttled, provider down
    before the request was sent), and RentRefused with DENIED for wrong credentials.
    """

    def create(self, request: RentRequest) -> Sequence[RentedThing]:
        """Rent the machines; returns them, possibly PENDING and without an address.

        Machines that shut themselves down are deleted by the provider's own means. Raises RentRefused, or
        AnswerLost. The same request again, where the provider can tell, returns the same machines.
        """

    def list(self) -> Sequence[RentedThing]:
        """Everything in the account, ours or not. A new machine may be missing for some time."""

    def delete(self, things: Collection[RentedThing]) -> None:
        """Begin to delete these; one that is gone already is no error. Raises AnswerLost."""

    def price(self, shape: Shape) -> float | None:
        """The present rate for one machine and hour, in the currency of the shape; None: the provider
        publishes none.
        """

    def examine(self) -> "Sequence[Finding]":
        """Check everything that it needs: the findings, one for each step. May take long; rents nothing."""


class ProviderKind(Protocol):
    """A kind of provider with one adapter for each account."""

    def check(self, record: ProviderRecord) -> None:
        """Raise InvalidInput for settings or credentials that make no provider of this kind; no I/O."""

    def open(self, record: ProviderRecord) -> Provider:
        """The adapter; contacts nothing before its first call."""
