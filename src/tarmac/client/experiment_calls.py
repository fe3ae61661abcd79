"""The methods about experiments. Inherited by `client.Client`."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from tarmac import api
from tarmac.client.calls import Calls, segment


class ExperimentCalls(Calls):
    """One method per route. Inherited by `Client`."""

    def experiments(
        self,
        *,
        states: Sequence[str] = (),
        user: str | None = None,
        project: str | None = None,
        archived: bool | None = None,
        before: str | None = None,
        limit: int = 100,
        mine: bool = False,
    ) -> api.ExperimentPage:
        """A page of the list of experiments, newest first; `before` is the `next` of the last page."""
        return self._get_as(
            api.ExperimentPage,
            "/experiments",
            limit=limit,
            state=list(states),
            user=user,
            project=project,
            archived=None if archived is None else str(archived).lower(),
            before=before,
            scope="mine" if mine else None,
        )

    def experiment(self, reference: str) -> api.Experiment:
        """An experiment, by id, unique prefix of an id, or name (the newest of that name)."""
        return self._get_as(api.Experiment, _path(reference))

    def trials(self, reference: str) -> list[api.Trial]:
        """All trials of an experiment, by number."""
        return self._get_as(list[api.Trial], _path(reference, "/trials"))

    def best_trials(self, reference: str, *, limit: int = 1) -> list[api.Trial]:
        """The trials with the best metric, best first."""
        return self._get_as(list[api.Trial], _path(reference, "/best"), limit=limit)

    def numbers(self, run_ids: Sequence[str]) -> dict[str, api.Numbers]:
        """The numbers of these runs in Determined's command, for runs that have some."""
        return self._get_as(dict[str, api.Numbers], "/numbers", run=list(run_ids)) if run_ids else {}

    def numbered_experiment(self, number: int) -> str:
        """The id of the experiment, or of the single run, with this number; raises NotFound."""
        return self._get_as(api.Numbered, f"/numbers/experiments/{number}").id

    def pause_experiment(self, reference: str) -> api.Experiment:
        """Pause every active trial, and begin no new ones."""
        return self._send_as(api.Experiment, "POST", _path(reference, "/pause"))

    def activate_experiment(self, reference: str) -> api.Experiment:
        """Resume the trials of a paused experiment."""
        return self._send_as(api.Experiment, "POST", _path(reference, "/activate"))

    def stop_experiment(self, reference: str, *, now: bool = False) -> api.Experiment:
        """End an experiment and its trials for good (`now`: without their grace)."""
        return self._send_as(api.Experiment, "POST", _path(reference, "/stop?now=true" if now else "/stop"))

    def continue_experiment(self, reference: str) -> api.Experiment:
        """Continue an ended experiment: failed and stopped trials run again."""
        return self._send_as(api.Experiment, "POST", _path(reference, "/continue"))

    def archive_experiment(self, reference: str, archived: bool = True) -> api.Experiment:
        """Hide an ended experiment from plain lists, or show it again."""
        return self._send_as(
            api.Experiment,
            "POST",
            _path(reference, f"/archive?{urlencode({'archived': str(archived).lower()})}"),
        )

    def remove_experiment(self, reference: str) -> api.Experiment:
        """Remove an ended experiment, with its trials' runs, files and artifacts."""
        return self._send_as(api.Experiment, "DELETE", _path(reference))


def _path(reference: str, rest: str = "") -> str:
    return f"/experiments/{segment('experiment', reference)}{rest}"
