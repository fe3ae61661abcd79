"""Search: reports events of trials to the searches of experiments, and executes their requests.

Run by the search loop. The reported events, the new state of the search, its new trials and the steps of runs
are in one transaction, guarded by the experiment: after a crash at any moment, no event is reported twice,
and no trial is lost or begun again.
"""

import logging

from tarmac.control.decisions.trials import ended_trials
from tarmac.control.state.control_state import ControlState
from tarmac.control.state.searches import Searches
from tarmac.model.errors import TarmacError
from tarmac.model.experiment import Experiment
from tarmac.model.lifecycle import ExperimentState

AT_WORK = frozenset({ExperimentState.ACTIVE, ExperimentState.STOPPING})

log = logging.getLogger(__name__)


def search_pass(control: ControlState, searches: Searches) -> None:
    """Advance every experiment."""
    for experiment in searches.live():
        if experiment.state in AT_WORK:
            try:
                _advance(control, searches, experiment)
            except TarmacError as error:  # a failing experiment delays no other
                searches.drop(experiment.id)
                log.warning("experiment %s (%s): %s", experiment.name, experiment.id, error)
    searches.forget_reports()


def _advance(control: ControlState, searches: Searches, experiment: Experiment) -> None:
    """Make one change from all news, if there are any."""
    trials = searches.trials(experiment.id)
    ended = ended_trials(trials.values(), searches.runs_of(trials))  # first: all their reports are stored now
    reports = searches.reports(experiment)
    if not reports and not ended:
        return
    draft = searches.draft(experiment.id)
    if draft is None or draft.before != experiment:
        searches.drop(experiment.id)
        return
    for report in reports:
        draft.report(report)
    for trial in ended:
        known = draft.trials[trial.number]
        draft.end(known, draft.runs.get(known.run_id))
    draft.settle()
    change = draft.change()
    if control.commit_experiment(change, lease=control.serving):
        searches.take(draft, change.after)
    else:
        searches.drop(experiment.id)
