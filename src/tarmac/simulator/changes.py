"""Hypothetical changes: one change of a cluster or its rules, as text from a person. Called by `cli`."""

import re

from msgspec import Struct

from tarmac.model.cluster import Cluster, Policy
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, nearest
from tarmac.simulator.playing import Rules
from tarmac.simulator.shapes import with_rules

KINDS = ("nodes", "policy", "shares", "preemption")
EXAMPLES = "nodes=+4, policy=fair_share, shares=alice:2,bob:1, preemption=on"

SWITCH = {"on": True, "off": False}


class Situation(Struct, frozen=True, kw_only=True):
    """The cluster and the rules of a play."""

    cluster: Cluster
    rules: Rules


def changed(situation: Situation, words: str) -> Situation:
    """The situation with one change, such as `nodes=+4`; raises InvalidInput for an invalid change."""
    kind, equals, value = words.partition("=")
    if not equals or kind not in KINDS:
        close = nearest(kind, KINDS)
        hint = f"did you mean {close}=...?" if close else f"for example {EXAMPLES}"
        raise InvalidInput(f"--what-if {words!r}: write one of {', '.join(KINDS)}, and =", hint=hint)
    if kind == "nodes":
        return replace(situation, cluster=_with_nodes(situation.cluster, value))
    if kind == "shares":
        return replace(situation, cluster=_with_shares(situation.cluster, value))
    rules = situation.rules
    if kind == "policy":
        return replace(situation, rules=replace(rules, policy=policy_of(value)))
    if value not in SWITCH:
        raise InvalidInput(f"--what-if preemption={value}: on or off")
    return replace(situation, rules=replace(rules, preemption=SWITCH[value]))


def policy_of(word: str) -> Policy:
    """The policy of this name; raises InvalidInput with the nearest one."""
    try:
        return Policy(word.strip().replace("-", "_"))
    except ValueError:
        close = nearest(word.replace("-", "_"), list(Policy))
        hint = f"did you mean {close}?" if close else None
        raise InvalidInput(f"there is no policy {word!r}: {', '.join(Policy)}", hint=hint) from None


def _with_nodes(cluster: Cluster, value: str) -> Cluster:
    """More or fewer nodes like the first group's: `+4`, `-2`, or the total number of them."""
    match = re.fullmatch(r"([+-]?)(\d{1,5})", value)
    if match is None:
        raise InvalidInput(f"--what-if nodes={value}: write +4, -2 or a number")
    first, *others = cluster.groups
    count = int(match[2])
    nodes = first.nodes + count if match[1] == "+" else first.nodes - count if match[1] == "-" else count
    if nodes < 1:
        raise InvalidInput(f"--what-if nodes={value}: {nodes} nodes would be left of {first.nodes}")
    group = replace(first, nodes=nodes, hostnames=first.hostnames if nodes == first.nodes else ())
    return replace(cluster, groups=(group, *others))


def _with_shares(cluster: Cluster, value: str) -> Cluster:
    """Other shares of users or projects in every pool; unnamed ones have 1."""
    shares: dict[str, float] = {}
    for item in value.split(","):
        name, _, weight = item.rpartition(":")
        if not name or not re.fullmatch(r"\d+(\.\d+)?", weight) or float(weight) <= 0:
            raise InvalidInput(f"--what-if shares={value}: {item!r} is not of the form NAME:WEIGHT")
        shares[name.strip()] = float(weight)
    ruled = with_rules(cluster, None, preemption=None)
    return replace(
        ruled, pools=tuple(replace(pool, shares={**pool.shares, **shares}) for pool in ruled.pools)
    )
