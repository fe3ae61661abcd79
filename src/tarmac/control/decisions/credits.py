"""The charges for the usage of attempts. Pure; used by `limit_state`.

An attempt is charged for its usage so far, less its earlier charges. So the sum of its charges is its usage,
whatever the times of the charges, and even if its nodes later report that it ended before one of them. A
charge has the number of charges before it in its key: two servers that charge the same time add one entry.
Usage on both sides of a midnight (UTC) has a charge for each side: the charges of a day are its usage.
"""

from collections.abc import Iterable, Iterator, Mapping

from tarmac.model.changes import HOUR_S
from tarmac.model.cluster import BURST_PREFIX, Pool
from tarmac.model.codec import replace
from tarmac.model.people.limits import (
    WARNED_SHARE,
    Charged,
    CreditAccount,
    CreditEntry,
    EntryKind,
    accounts_of,
)
from tarmac.model.people.usage import AttemptSpan, Period, periods
from tarmac.model.run import attempt_id

LEAST_SLOT_S = 1e-6
"""Less usage than this is the rounding of sums."""

Accounts = Mapping[str, CreditAccount]


def charges(
    spans: Iterable[AttemptSpan], accounts: Accounts, charged: Charged, pools: Iterable[Pool], now: float
) -> Iterator[tuple[CreditEntry, bool]]:
    """The charges for these attempts until now, each with whether its attempt has ended."""
    prices = {pool.key: pool.credits_per_slot_hour for pool in pools}
    for span in spans:
        if span.cluster.startswith(BURST_PREFIX):
            continue  # its rented machines are charged instead, and its pool is gone when it ends
        price = prices.get((span.cluster, span.pool), 1.0) / HOUR_S
        attempt = attempt_id(span.run_id, span.attempt)
        for name in accounts_of(span.user, span.project):
            if (account := accounts.get(name)) is None:
                continue
            before_slot_s, count = charged.get((name, attempt), (0.0, 0))
            until = max(now if span.end is None else min(now, span.end), account.since)
            for _, after in periods(Period.DAY, max(span.begin, account.since), until):
                at = min(after, until)
                slot_s = span.slot_s(account.since, at) - before_slot_s
                if slot_s < -LEAST_SLOT_S and at == until:  # an earlier end than was known at the last charge
                    at = now
                elif slot_s <= LEAST_SLOT_S:
                    continue
                before_slot_s, count = before_slot_s + slot_s, count + 1
                key, amount = f"{attempt}/{count}", -slot_s * price
                charge = CreditEntry(account=name, kind=EntryKind.CHARGE, at=at, amount=amount, key=key)
                yield replace(charge, attempt=attempt, slot_s=slot_s), span.end is not None


def is_due_to_warn(account: CreditAccount) -> bool:
    """Whether its owner has to be warned now."""
    return not account.warned and account.used >= WARNED_SHARE * account.granted
