"""Tries each step of a run on a firecREST, for `tarmac clusters check`. Called by `FirecrestJobs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tarmac.engines.firecrest.api import Api, wrong_form
from tarmac.engines.sites.wire import SiteFiles
from tarmac.engines.slurm.settings import PoolSettings, SlurmSettings
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import Unavailable, listed

SHOWN = 8
Checked = tuple[bool, str]


def examined(api: Api, files: SiteFiles, settings: SlurmSettings) -> Iterator[Finding]:
    """The finding of each step; the first failure is the last."""
    steps: Mapping[str, Callable[[], Checked]] = {
        "token": lambda: _token(api),
        "system": lambda: _system(api),
        "directory": lambda: _writable(files, str(settings.directory)),
        "queue": lambda: _queue(api, settings.pools),
        "account": lambda: _account(api, settings.pools),
    }
    for what, step in steps.items():
        try:
            with wrong_form():
                ok, text = step()
        except Unavailable as error:
            ok, text = False, str(error)
        except OSError as error:
            ok, text = False, f"{error.filename}: {error.strerror}"
        yield Finding(what=what, ok=ok, text=text)
        if not ok:
            return


def _token(api: Api) -> Checked:
    api.tokens.current()
    return True, "the client's credentials give one"


def _system(api: Api) -> Checked:
    systems = {str(each["name"]): each for each in api.get("/status/systems")["systems"]}
    found = systems.get(api.system)
    if found is None:
        names = listed(sorted(systems), SHOWN) or "none"
        return False, f"there is no system {api.system} at {api.url}; there are {names}"
    sick = [each for each in found.get("servicesHealth") or () if not each.get("healthy", True)]
    if sick:
        words = "; ".join(f"{each.get('serviceType')}: {each.get('message')}" for each in sick)
        return False, f"{api.system} is unhealthy, and runs wait: {words}"
    return True, f"{api.system} is healthy"


def _writable(files: SiteFiles, directory: str) -> Checked:
    path = f"{directory}/.tarmac-check"
    files.make_directory(directory)
    files.write(path, b"tried\n")
    files.remove(path)
    return True, f"{directory} can be written"


def _queue(api: Api, pools: Sequence[PoolSettings]) -> Checked:
    known = {str(each["name"]): each for each in api.get("/status/{system}/partitions")["partitions"]}
    for pool in pools:
        for name in pool.partition.split(","):
            if name not in known:
                there = listed(sorted(known), SHOWN) or "none"
                return False, f"pool {pool.name}: there is no partition {name}; there are {there}"
            if (state := _state(known[name])) != "UP":
                return False, f"pool {pool.name}: partition {name} is {state.lower()}"
    return True, f"there are the partitions {', '.join(pool.partition for pool in pools)}"


def _account(api: Api, pools: Sequence[PoolSettings]) -> Checked:
    known = [str(each["name"]) for each in api.get("/status/{system}/userinfo").get("accounts") or ()]
    given = _accounts(pools)
    unknown = [name for name in given if known and name not in known]
    if unknown:
        return False, f"{', '.join(unknown)} is none of your accounts: {listed(known, SHOWN)}"
    return (
        True,
        f"{', '.join(given) or 'the default one'}; yours are {listed(known, SHOWN) or 'not shown'}",
    )


def _state(partition: Mapping[str, Any]) -> str:
    return str(partition.get("state") or partition.get("partition") or "unknown").upper()


def _accounts(pools: Sequence[PoolSettings]) -> list[str]:
    return sorted({pool.terms["account"] for pool in pools if "account" in pool.terms})
