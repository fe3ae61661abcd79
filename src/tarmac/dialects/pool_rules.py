"""Reads the rules of pools. Called by `clusterfile`, for the local cluster by a server's settings, and by the
route that edits one pool.
"""

from collections.abc import Mapping
from typing import Any

from tarmac.dialects import names
from tarmac.dialects.kinds import choice, flag, matching, number, written_number
from tarmac.dialects.located import Problems, from_plain
from tarmac.dialects.quantities import duration_s
from tarmac.dialects.schema import MISSING, Custom, Field, attributes, read_value, record, write_record
from tarmac.dialects.section import Section, Value
from tarmac.model.cluster import Packing, Policy, Pool, ShareBy

LARGEST_SHARE = 100_000
_OF_SHARES = ("share_by", "shares", "half_life")


def read_pools(value: Value | None, cluster: str) -> tuple[tuple[Pool, Value], ...]:
    """The rules by pool name, each with its node in the file."""
    if value is None:
        return ()
    read: list[tuple[Pool, Value]] = []
    for key, rules in value.entries("pools by name, each with its rules,"):
        name = key.read(names.NAME, "")
        found = read_value(rules, POOL)
        if name and found is not MISSING:
            read.append((Pool(name=name, cluster=cluster, **found), rules))
    return tuple(read)


def edited(pool: Pool, changes: Mapping[str, Any]) -> Pool:
    """The pool with these rules, as in a file; None returns a rule to its default. Raises InvalidInput.

    With another policy, earlier rules about shares vanish.
    """
    problems, before = Problems(None), write_record(pool, POOL)
    if changes.get("policy", Policy.FAIR_SHARE) != Policy.FAIR_SHARE:
        before = {name: rule for name, rule in before.items() if name not in _OF_SHARES}
    given = {**before, **changes}
    rules = {name: rule for name, rule in given.items() if rule is not None or name not in POOL.fields}
    found = read_value(Value(from_plain(rules), "", problems), POOL)
    problems.raise_any()
    return Pool(name=pool.name, cluster=pool.cluster, **found)


def _check(section: Section, found: Mapping[str, Any]) -> None:
    """Report fields that contradict each other."""
    pool = Pool(name="", cluster="", **attributes(found, POOL))
    if pool.policy is not Policy.FAIR_SHARE:
        for name in _OF_SHARES:
            if (value := section.get(name)) is not None:
                value.refuse(f"nothing is shared under policy {pool.policy}", "write policy: fair_share")
    if pool.share_by is ShareBy.RUN and (value := section.get("shares")) is not None:
        value.refuse("runs share this pool, and have no shares here", "a run file says its 'weight'")
    if pool.floor_s > pool.period_s:
        wrong = section.get("floor") or section.get("period")
        assert wrong is not None, "the usual floor is shorter than the usual period"
        wrong.refuse(
            f"a block of at least {pool.floor_s:g}s does not fit into a period of {pool.period_s:g}s",
            "floor is at most period; it is 300s where it is not given",
        )

    if pool.idle_pause_s is not None and not (pool.idle_report_s or float("inf")) < pool.idle_pause_s:
        section["idle_pause"].refuse("a run is reported before it is paused", "write a shorter idle_report")


def _shares(value: Value) -> Mapping[str, float]:
    shares: dict[str, float] = {}
    for key, weight in value.entries("a number for each user or project"):
        shares[key.read(_WHO, "")] = weight.read(_SHARE, 1.0)
    return shares


def _written_shares(shares: Mapping[str, float]) -> Mapping[str, float]:
    return {name: written_number(share) for name, share in shares.items()}


_WHO = matching(r"[^\x00-\x1f\x7f]{1,255}", "the name of a user or project")
_SHARE = number(above=0, maximum=LARGEST_SHARE)
_PRICE = number(0.0, 1e6)
POOL = record(
    {
        "policy": Field(choice(Policy), words="order scheduling"),
        "preemption": Field(flag(), words="preempt preemptible"),
        "packing": Field(choice(Packing), words="pack placement"),
        "guaranteed": Field(duration_s(0.0), sets="guaranteed_s", words="minimum guarantee"),
        "backfill_window": Field(duration_s(0.0), sets="backfill_window_s", words="patience"),
        "share_by": choice(ShareBy),
        "shares": Field(Custom(_shares, _written_shares), words="weights"),
        "half_life": Field(duration_s(), sets="half_life_s"),
        "turn": Field(duration_s(), sets="turn_s", words="quantum cycle"),
        "period": Field(duration_s(), sets="period_s"),
        "floor": Field(duration_s(), sets="floor_s", words="block"),
        "idle_report": Field(duration_s(), sets="idle_report_s"),
        "idle_pause": Field(duration_s(), sets="idle_pause_s"),
        "credits_per_slot_hour": Field(_PRICE, words="price cost"),
    },
    _check,
    make=dict,
)
