"""Limits of users, projects and pools, and credits: records, their port, and the sentences about them.

Used by `store`, `control`, `sched` (which gets caps, as numbers) and the API.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple, Protocol

from msgspec import Meta, Struct

from tarmac.model.codec import replace

EVERY = "*"
"""In a scope: every user, project or pool that has no limit of its own, each counted separately."""

WARNED_SHARE = 0.8
"""The used share of the credits since the last grant at which the owner is warned."""


class LimitScope(Struct, frozen=True, kw_only=True):
    """The runs that a limit or an account is about: those of this user, of this project, in this pool.

    `pool` is CLUSTER/POOL. None: of any.
    """

    user: str | None = None
    project: str | None = None
    pool: str | None = None

    @property
    def parts(self) -> tuple[str | None, ...]:
        """The user, the project and the pool."""
        return self.user, self.project, self.pool

    def __str__(self) -> str:
        """As in `user ada in pool local/big`."""
        return " in ".join(f"{noun} {name}" for noun, name in self._named())

    @property
    def flags(self) -> str:
        """The options of `tarmac limits` for it."""
        return " ".join(f"--{noun} {name}" for noun, name in self._named())

    def _named(self) -> Iterator[tuple[str, str]]:
        pairs = zip(LimitScope.__struct_fields__, self.parts, strict=True)
        return ((noun, name) for noun, name in pairs if name is not None)


class LimitKind(StrEnum):
    """The kind of a limit; the value is its field of `Limit`. CREDITS: an account is used up."""

    SLOTS = "slots"
    QUEUED = "queued"
    SLOT_HOURS = "slot_hours"
    LARGEST = "largest"
    LONGEST = "longest_s"
    RENT_PER_HOUR = "rent_per_hour"
    RENT_BUDGET = "rent_budget"
    CREDITS = "credits"


_Whole = Annotated[int, Meta(ge=0, le=10**9)]
_Amount = Annotated[float, Meta(ge=0, le=1e12)]


class Limit(LimitScope, frozen=True, kw_only=True):
    """The limits of a scope; None: no limit.

    `slots`: at once. `queued`: waiting runs. `slot_hours`: in a calendar month (UTC). `largest`: the slots of
    one run. `longest_s`: the time limit of a run. `rent_per_hour`: the rate of the machines that one run
    rents. `rent_budget`: the money for rented machines in a calendar month (UTC), open rentals included.
    """

    slots: _Whole | None = None
    queued: _Whole | None = None
    slot_hours: _Amount | None = None
    largest: _Whole | None = None
    longest_s: _Amount | None = None
    rent_per_hour: _Amount | None = None
    rent_budget: _Amount | None = None

    @property
    def given(self) -> dict[str, float]:
        """The limits that are set, by field."""
        names = Limit.__struct_fields__[len(LimitScope.__struct_fields__) :]
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class Cap(LimitScope, frozen=True, kw_only=True):
    """One limit as a number: the most of its kind, the used amount, and what a run needs, where known."""

    kind: LimitKind
    most: float
    used: float = 0.0
    needed: float = 0.0

    def on(self, scope: LimitScope, used: float, needed: float = 0.0) -> "Cap":
        """The cap for one scope, with its use."""
        user, project, pool = scope.parts
        return replace(self, user=user, project=project, pool=pool, used=used, needed=needed)

    @property
    def text(self) -> str:
        """Why a run may not start, or not be submitted: the limit, and its use."""
        scale = 3600.0 if self.kind is LimitKind.LONGEST else 1.0
        values = {"most": self.most / scale, "used": self.used, "needed": self.needed / scale}
        return _TEXTS[self.kind].format(scope=self, **values).replace("inf h", "none")

    @property
    def raised_by(self) -> str:
        """The command of an administrator that raises the limit."""
        if self.kind is LimitKind.CREDITS:
            command = f"credits grant AMOUNT {self.flags}"
            return f"An administrator can grant credits: tarmac {command}"
        command = f"limits set {self.flags} --{self.kind.removesuffix('_s').replace('_', '-')} MORE"
        return f"An administrator can raise the limit: tarmac {command}"


_TEXTS = {
    LimitKind.SLOTS: "runs of {scope} may hold {most:g} slots and hold {used:g}; this one needs {needed:g}",
    LimitKind.QUEUED: "{most:g} runs of {scope} may wait, and {used:g} do",
    LimitKind.SLOT_HOURS: "runs of {scope} may use {most:g} slot-hours a month and have used {used:.1f}",
    LimitKind.LARGEST: "a run of {scope} may have {most:g} slots; this one needs {needed:g}",
    LimitKind.LONGEST: "a run of {scope} may have a time limit of {most:g} h; this one has {needed:g} h",
    LimitKind.RENT_PER_HOUR: "a run of {scope} may rent for {most:g} an hour; this one needs {needed:g}",
    LimitKind.RENT_BUDGET: "runs of {scope} may rent for {most:g} a month and have used {used:.2f}",
    LimitKind.CREDITS: "the credits of {scope} are used up: {used:.1f} used, {most:.1f} granted",
}


class SlotUse(NamedTuple):
    """Slots that runs of a user and a project hold in a pool (CLUSTER/POOL)."""

    owner: str
    project: str
    pool: str | None
    slots: int = 0


def pool_key(cluster: str, pool: str) -> str:
    """The name of a pool in scopes."""
    return f"{cluster}/{pool}"


def caps_of(limits: Iterable[Limit], *kinds: LimitKind) -> tuple[Cap, ...]:
    """The caps of these kinds."""
    found = ((limit, kind, limit.given.get(kind)) for limit in limits for kind in kinds)
    return tuple(Cap(kind=kind, most=most).on(limit, 0.0) for limit, kind, most in found if most is not None)


def matching(caps: Iterable[Cap], use: SlotUse) -> list[tuple[Cap, LimitScope]]:
    """The caps on runs of a user and a project in a pool, each with the scope that it counts together.

    A named user, project or pool takes the place of `*`.
    """
    found: dict[object, tuple[Cap, LimitScope]] = {}
    for cap in caps:
        pairs = list(zip(cap.parts, use, strict=False))
        if any(own is not None and (value is None or own not in (EVERY, value)) for own, value in pairs):
            continue
        user, project, pool = (None if own is None else str(value) for own, value in pairs)
        key = cap.kind, user is None, project is None, pool is None
        if key not in found or cap.parts.count(EVERY) < found[key][0].parts.count(EVERY):
            found[key] = cap, LimitScope(user=user, project=project, pool=pool)
    return list(found.values())


class EntryKind(StrEnum):
    """The kind of an entry in the ledger of credits. WARNING: the owner was warned; it has no amount."""

    GRANT = "grant"
    CHARGE = "charge"
    CORRECTION = "correction"
    WARNING = "warning"


class CreditEntry(Struct, frozen=True, kw_only=True):
    """An entry of the ledger, for an account (`user:ada` or `project:nlp`); it never changes.

    `key` is unique in its account: a second entry with it is dropped. A charge is for `slot_s` of an attempt
    since its last charge. `actor` made the others, with a `note`.
    """

    account: str
    kind: EntryKind
    at: float
    amount: float
    key: str
    attempt: str | None = None
    slot_s: float = 0.0
    actor: str = ""
    note: str = ""
    id: int = 0


class CreditAccount(Struct, frozen=True, kw_only=True):
    """The sums of an account, from its first entry at `since` to the newest one at `last_at`.

    `granted` is the balance after the last grant, number `refill` of the ledger. `warned`: its owner was
    warned since.
    """

    account: str
    since: float
    last_at: float
    granted: float
    balance: float
    refill: int
    warned: bool = False

    @property
    def used(self) -> float:
        """The credits used since the last grant."""
        return self.granted - self.balance

    @property
    def cap(self) -> Cap:
        """The cap on the runs that it pays for, once it is used up."""
        kind, _, name = self.account.partition(":")
        return Cap(kind=LimitKind.CREDITS, most=self.granted).on(LimitScope(**{kind: name}), self.used)


def accounts_of(user: str, project: str) -> tuple[str, str]:
    """The accounts that pay for the runs of a user for a project, where they exist."""
    return f"user:{user}", f"project:{project}"


Charged = Mapping[tuple[str, str], tuple[float, int]]
"""By account and attempt: the charged slot-seconds, and the number of charges."""


class Limits(Protocol):
    """The durable record of limits and credits. Errors are those of `ports.Store`."""

    def limits(self) -> list[Limit]:
        """All limits, in any order."""

    def put(self, limit: Limit) -> None:
        """Store the limits of a scope, in place of earlier ones; one without any is removed."""

    def add(self, entries: Sequence[CreditEntry]) -> None:
        """Add entries in one transaction; those with a known account and key are left out."""

    def accounts(self) -> list[CreditAccount]:
        """The accounts that have a grant, by name."""

    def charged(self, attempts: Sequence[str]) -> Charged:
        """The charges so far for these attempts."""

    def entries(self, account: str | None, *, before: int, limit: int) -> list[CreditEntry]:
        """A page of the ledger, the newest first: entries with an id below `before`."""
