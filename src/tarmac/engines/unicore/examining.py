"""Tries each step of a run at a UNICORE, for `tarmac clusters check`. Called by `UnicoreEngine`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tarmac.engines.sites.examining import (
    SHOWN,
    Checked,
    check_accounts,
    check_directory,
    check_queue,
    findings,
    probe,
)
from tarmac.engines.slurm.settings import SlurmSettings
from tarmac.engines.unicore.client import Unicore
from tarmac.engines.unicore.files import UnicoreFiles
from tarmac.engines.unicore.jobs import UnicoreJobs
from tarmac.model.cluster import Finding
from tarmac.model.errors import listed


class ExaminedJobs(UnicoreJobs):
    """Implements `SiteJobs`."""

    def __init__(
        self, cluster: str, site: Unicore, files: UnicoreFiles, settings: SlurmSettings, *, group: str | None
    ) -> None:
        super().__init__(cluster, site, files, settings)
        self._group = group

    def examine(self) -> Iterator[Finding]:
        return findings(
            {
                "token": self._token,
                "system": self._system,
                "directory": self._directory,
                "login node": self._login_node,
                "queue": lambda: check_queue(self._settings.pools, dict.fromkeys(self._resources(), "UP")),
                "account": self._account,
            }
        )

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
        storage = self._files.place().storage
        _, text = check_directory(self._files, str(self._settings.directory))
        return True, f"{text}, on the storage {storage}; nodes must see it"

    def _login_node(self) -> Checked:
        path = probe(str(self._settings.directory))
        try:
            self._files.create(path, b"tried\n")
        finally:
            self._files.remove(path)
        return True, "runs short commands: runs that wait can be taken back, and login hooks run"

    def _account(self) -> Checked:
        client = self._site.about()["client"]
        groups = [str(each) for each in client["xlogin"].get("availableGroups") or ()]
        if self._group is not None and groups and self._group not in groups:
            return False, f"{self._group} is none of your groups there: {listed(groups, SHOWN)}"
        budgets = {name for factory in self._factories() for name in _budgets(factory)}
        return check_accounts(self._settings.pools, sorted(budgets))


def _budgets(factory: Mapping[str, Any]) -> Sequence[str]:
    """The projects with time left."""
    found = factory.get("remainingComputeTime")
    return [str(name) for name in found] if isinstance(found, dict) else []
