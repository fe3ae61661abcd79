"""Completes runs of Determined's dialect with facts from tables of the server. Called by `systems.gateways`.

A configuration that starts from a checkpoint gets it as an input: `searcher.source_trial_id` names a trial,
`source_checkpoint_uuid` a reported checkpoint of it.
"""

from collections.abc import Mapping

from tarmac.control.permissions import may_see
from tarmac.model.actor import Actor
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.ports import Store
from tarmac.model.run_records import NumberKind, Numbers, RunRecordKind
from tarmac.model.spec import RunSpec
from tarmac.systems.determined.reader import NAME

_TRIAL, _CHECKPOINT = "source_trial_id", "source_checkpoint_uuid"


def named_source(spec: RunSpec) -> int | str | None:
    """The trial number or checkpoint UUID from which a configuration starts; None if it names neither."""
    config = spec.conventions.facts.get("config") if spec.conventions.system == NAME else None
    searcher = config.get("searcher") if isinstance(config, Mapping) else None
    if not isinstance(searcher, Mapping):
        return None
    trial, uuid = searcher.get(_TRIAL), searcher.get(_CHECKPOINT)
    return uuid if isinstance(uuid, str) else trial if type(trial) is int else None


def with_source(spec: RunSpec, actor: Actor | None, *, store: Store, numbers: Numbers) -> RunSpec:
    """The spec with the source of its configuration as an input.

    Raises InvalidInput if there is no such trial, also for one that the actor may not see (None: the server).
    """
    source = _source(named_source(spec), actor, store, numbers)
    if source is None or any(text.startswith(f"{source}.") for text in spec.input_artifacts):
        return spec
    return replace(spec, input_artifacts=(*spec.input_artifacts, source))


def _source(named: int | str | None, actor: Actor | None, store: Store, numbers: Numbers) -> str | None:
    """The run whose checkpoints a configuration starts from."""
    if isinstance(named, str):  # an unknown one may be in the user's own storage
        found = store.run_records.named(RunRecordKind.CHECKPOINT, named)
        run_id = found[-1].run_id if found else None
    else:
        run_id = numbers.numbered(NumberKind.TRIAL, named) if named is not None else None
    run = store.run(run_id) if run_id is not None and actor is not None else None
    if run is not None and actor is not None and not may_see(actor, run):
        run_id = None
    if isinstance(named, int) and run_id is None:
        raise InvalidInput(f"searcher.{_TRIAL}: there is no trial {named}")
    return run_id
