"""Tries each step of a run on a firecREST, for `tarmac clusters check`. Called by `FirecrestJobs`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tarmac.engines.firecrest.api import Api, wrong_form
from tarmac.engines.sites.examining import (
    SHOWN,
    Checked,
    check_accounts,
    check_directory,
    check_queue,
    findings,
)
from tarmac.engines.sites.wire import SiteFiles
from tarmac.engines.slurm.settings import SlurmSettings
from tarmac.model.cluster import Finding
from tarmac.model.errors import listed


def examined(api: Api, files: SiteFiles, settings: SlurmSettings) -> Iterator[Finding]:
    """The finding of each step; the first failure is the last."""
    steps: Mapping[str, Callable[[], Checked]] = {
        "token": lambda: _token(api),
        "system": lambda: _system(api),
        "directory": lambda: check_directory(files, str(settings.directory)),
        "queue": lambda: check_queue(settings.pools, _partitions(api)),
        "account": lambda: check_accounts(settings.pools, _accounts(api)),
    }
    return findings({what: wrong_form()(step) for what, step in steps.items()})


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


def _partitions(api: Api) -> Mapping[str, str]:
    """The states of all partitions."""
    found = api.get("/status/{system}/partitions")["partitions"]
    return {str(each["name"]): str(each.get("state") or each.get("partition") or "unknown") for each in found}


def _accounts(api: Api) -> list[str]:
    return [str(each["name"]) for each in api.get("/status/{system}/userinfo").get("accounts") or ()]
