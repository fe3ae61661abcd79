"""Reads the rules of pools. Called by `clusterfile`, and for the local cluster by a server's settings."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.dialects import names
from tarmac.dialects.kinds import choice, flag, matching, number
from tarmac.dialects.quantities import duration_s
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.cluster import Packing, Policy, Pool, ShareBy

POOL = Fields(
    known=frozenset(
        {"policy", "preemption", "packing", "guaranteed", "share_by", "shares", "half_life"}
        | {"backfill_window", "turn", "period", "floor"}
    ),
    synonyms=words_for(
        policy="order scheduling",
        preemption="preempt preemptible",
        packing="pack placement",
        guaranteed="minimum guarantee",
        backfill_window="patience",
        shares="weights",
        turn="quantum cycle",
        floor="block",
    ),
)

LARGEST_SHARE = 100_000


def read_pools(value: Value | None, cluster: str) -> tuple[tuple[Pool, Value], ...]:
    """The rules by pool name, each with its node in the file."""
    if value is None:
        return ()
    read: list[tuple[Pool, Value]] = []
    for key, rules in value.entries("pools by name, each with its rules,"):
        name = key.read(names.NAME, "")
        section = rules.section(POOL)
        if name and section is not None:
            read.append((_pool(section, name, cluster), rules))
    return tuple(read)


def _pool(section: Section, name: str, cluster: str) -> Pool:
    usual = Pool(cluster=cluster)
    pool = Pool(
        name=name,
        cluster=cluster,
        policy=section.read("policy", choice(Policy), usual.policy),
        preemption=section.read("preemption", flag(), usual.preemption),
        packing=section.read("packing", choice(Packing), usual.packing),
        guaranteed_s=section.read("guaranteed", duration_s(0.0), usual.guaranteed_s),
        backfill_window_s=section.read("backfill_window", duration_s(0.0), usual.backfill_window_s),
        share_by=section.read("share_by", choice(ShareBy), usual.share_by),
        shares=_shares(section.get("shares")),
        half_life_s=section.read("half_life", duration_s(), usual.half_life_s),
        turn_s=section.read("turn", duration_s(), usual.turn_s),
        period_s=section.read("period", duration_s(), usual.period_s),
        floor_s=section.read("floor", duration_s(), usual.floor_s),
    )
    _check(section, pool)
    return pool


def _check(section: Section, pool: Pool) -> None:
    """Report fields that contradict each other."""
    if pool.policy is not Policy.FAIR_SHARE:
        for name in ("share_by", "shares", "half_life"):
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


def _shares(value: Value | None) -> Mapping[str, float]:
    if value is None:
        return {}
    shares: dict[str, float] = {}
    for key, weight in value.entries("a number for each user or project"):
        shares[key.read(_WHO, "")] = weight.read(number(above=0, maximum=LARGEST_SHARE), 1.0)
    return shares


_WHO = matching(r"[^\x00-\x1f\x7f]{1,255}", "the name of a user or project")
