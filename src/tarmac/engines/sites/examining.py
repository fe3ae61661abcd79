"""Tries the steps of a run at a site, for `tarmac clusters check`. Called by `SiteJobs` of the engines."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

from tarmac.engines.sites.wire import SiteFiles
from tarmac.engines.slurm.settings import PoolSettings
from tarmac.model.cluster import Finding
from tarmac.model.errors import InvalidInput, Unavailable, listed

SHOWN = 8
Checked = tuple[bool, str]
"""Whether a step succeeded, and the facts about it."""


def findings(steps: Mapping[str, Callable[[], Checked]]) -> Iterator[Finding]:
    """The finding of each step; the first failure is the last."""
    for what, step in steps.items():
        try:
            ok, text = step()
        except (Unavailable, InvalidInput) as error:
            ok, text = False, str(error)
        except OSError as error:
            ok, text = False, f"{error.filename}: {error.strerror}"
        yield Finding(what=what, ok=ok, text=text)
        if not ok:
            return


def check_directory(files: SiteFiles, directory: str) -> Checked:
    """Whether a file can be written in the directory of the cluster."""
    path = probe(directory)
    files.make_directory(directory, private=True)
    files.write(path, b"tried\n")
    files.remove(path)
    return True, f"{directory} can be written"


def check_queue(pools: Sequence[PoolSettings], states: Mapping[str, str]) -> Checked:
    """Whether the partitions of all pools are among those of the site, by name with their states."""
    for pool in pools:
        for name in pool.partition.split(","):
            if name not in states:
                there = listed(sorted(states), SHOWN) or "none"
                return False, f"pool {pool.name}: there is no partition {name}; there are {there}"
            if states[name].upper() != "UP":
                return False, f"pool {pool.name}: partition {name} is {states[name].lower()}"
    return True, f"there are the partitions {', '.join(pool.partition for pool in pools)}"


def check_accounts(pools: Sequence[PoolSettings], known: Sequence[str]) -> Checked:
    """Whether the accounts of all pools are known; a site may show none."""
    given = sorted({pool.terms["account"] for pool in pools if "account" in pool.terms})
    if unknown := [name for name in given if known and name not in known]:
        return False, f"{', '.join(unknown)} is none of your accounts: {listed(known, SHOWN)}"
    shown = f"yours are {listed(known, SHOWN)}" if known else "the site shows none"
    return True, f"{', '.join(given) or 'the default one'}; {shown}"


def probe(directory: str) -> str:
    """The path of a file for a trial."""
    return f"{directory}/.tarmac-check-{uuid.uuid4().hex[:8]}"
