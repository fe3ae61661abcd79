"""Tries each step of a run at a UNICORE, for `tarmac clusters check`. Called by `UnicoreEngine`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tarmac.engines.slurm.settings import SlurmSettings
from tarmac.engines.unicore.client import Unicore
from tarmac.engines.unicore.files import UnicoreFiles
from tarmac.engines.unicore.jobs import UnicoreJobs
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import InvalidInput, Unavailable, listed

SHOWN = 8
Checked = tuple[bool, str]


class ExaminedJobs(UnicoreJobs):
    """Implements `SiteJobs`."""

    def __init__(
        self, cluster: str, site: Unicore, files: UnicoreFiles, settings: SlurmSettings, *, group: str | None
    ) -> None:
        super().__init__(cluster, site, files, settings)
        self._group = group

    def examine(self) -> Iterator[Finding]:
        steps = {
            "token": self._token,
            "system": self._system,
            "directory": self._directory,
            "login node": self._login_node,
            "queue": self._queue,
            "account": self._account,
        }
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

    def _token(self) -> Checked:
        client = self._site.about(again=True)["client"]
        return True, f"{client['xlogin']['UID']}, with the role {client['role']['selected']}"

    def _system(self) -> Checked:
        server = self._site.about().get("server", {})
        jobs = server.get("jobSubmission", {})
        if jobs.get("enabled") is False:
            return False, f"it takes no jobs now: {jobs.get('message') or 'it does not say why'}"
        return True, f"{self._site.url}: UNICORE {server.get('version', 'of an unknown version')}"

    def _directory(self) -> Checked:
        directory, place = str(self._settings.directory), self._files.place()
        path = f"{directory}/{_probe()}"
        self._files.make_directory(directory, private=True)
        self._files.write(path, b"tried\n")
        self._files.remove(path)
        return True, f"{directory} can be written, on the storage {place.storage}; nodes must see it"

    def _login_node(self) -> Checked:
        path = f"{self._settings.directory}/{_probe()}"
        try:
            self._files.create(path, b"tried\n")
        finally:
            self._files.remove(path)
        return True, "runs short commands: runs that wait can be taken back, and login hooks run"

    def _queue(self) -> Checked:
        known = self._resources()
        for pool in self._settings.pools:
            for name in pool.partition.split(","):
                if name not in known:
                    there = listed(sorted(known), SHOWN) or "none"
                    return False, f"pool {pool.name}: there is no partition {name}; there are {there}"
        return True, f"there are the partitions {', '.join(pool.partition for pool in self._settings.pools)}"

    def _account(self) -> Checked:
        client = self._site.about()["client"]
        groups = [str(each) for each in client["xlogin"].get("availableGroups") or ()]
        if self._group is not None and groups and self._group not in groups:
            return False, f"{self._group} is none of your groups there: {listed(groups, SHOWN)}"
        budgets = sorted({name for factory in self._factories() for name in _budgets(factory)})
        given = sorted({pool.terms["account"] for pool in self._settings.pools if "account" in pool.terms})
        unknown = [name for name in given if budgets and name not in budgets]
        if unknown:
            return False, f"{', '.join(unknown)} is none of your projects there: {listed(budgets, SHOWN)}"
        shown = f"with time left: {listed(budgets, SHOWN)}" if budgets else "the site shows no budgets"
        return True, f"{', '.join(given) or 'the default one'}; {shown}"


def _budgets(factory: Mapping[str, Any]) -> Sequence[str]:
    found = factory.get("remainingComputeTime")
    return [str(name) for name in found] if isinstance(found, dict) else []


def _probe() -> str:
    return f".tarmac-check-{uuid.uuid4().hex[:8]}"
