"""The backend `tarmac` of MLflow's projects: `mlflow run . --backend tarmac --backend-config FILE.json`.

MLflow finds it by the entry point `mlflow.project_backend`, and calls it in its own process. The server of
tarmac ends the run of MLflow (see `tracking`), so that it ends as well if that process has died.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mlflow.exceptions import ExecutionException
from mlflow.projects.backend.abstract_backend import AbstractBackend
from mlflow.projects.submitted_run import SubmittedRun
from mlflow.projects.utils import (
    fetch_and_validate_project,
    get_or_create_run,
    get_run_env_vars,
    load_project,
)
from mlflow.tracking import MlflowClient
from mlflow.utils.credentials import get_default_host_creds

from tarmac.cli.runfile import companions, read_text
from tarmac.client import Client
from tarmac.client.launching import json_text
from tarmac.dialects.dialect import Certainty, Extras
from tarmac.dialects.names import fit, name_from_file
from tarmac.model.errors import InvalidInput, TarmacError
from tarmac.model.progress import Outcome
from tarmac.model.spec import RunSpec
from tarmac.systems.listing import report_of
from tarmac.systems.mantik.dialect import MANTIK
from tarmac.systems.mantik.reader import MLFLOW_KEYS
from tarmac.systems.mantik.statuses import status
from tarmac.systems.mlflow.tracking import PASSWORD, TOKEN, TRACKING_URI, USERNAME
from tarmac.systems.registry import choose, read

TOLD_WITHIN_S = 30.0
"""The time in which the server usually has ended the run of MLflow."""

_LOOK_AGAIN_S = 0.2
_ENDS = ("FINISHED", "FAILED", "KILLED")
_FILE = "file"
_LONGEST_HOST = 38

log = logging.getLogger("mlflow.projects.tarmac")
"""MLflow shows what its own loggers write."""


class TarmacBackend(AbstractBackend):
    """Submits the entry point of a project as a run of tarmac."""

    def run(  # noqa: PLR0917 MLflow's
        self,
        project_uri: str,
        entry_point: str,
        params: Mapping[str, Any] | None,
        version: str | None,
        backend_config: Mapping[str, Any],
        tracking_uri: str,
        experiment_id: str,
    ) -> TarmacRun:
        """Submit it; raises ExecutionException for anything that is wrong."""
        if urlsplit(tracking_uri).scheme not in ("http", "https") or "@" in urlsplit(tracking_uri).netloc:
            raise ExecutionException(
                "the run logs to a tracking server that its nodes can reach: MLFLOW_TRACKING_URI needs the "
                "URL of an `mlflow server`, without a login in it (MLFLOW_TRACKING_USERNAME has that)"
            )
        directory = fetch_and_validate_project(project_uri, version, entry_point, params)
        with _errors_of_mlflow():
            request, spec = submission(Path(directory), entry_point, params or {}, backend_config)
            client = Client(on_notice=log.warning)
            client.version()
        mlflow = MlflowClient()
        tracked = get_or_create_run(
            None, project_uri, experiment_id, directory, version, entry_point, params or {}
        )
        run_id = tracked.info.run_id
        try:
            mlflow.update_run(run_id, status="SCHEDULED")
            with _errors_of_mlflow():
                variables = get_run_env_vars(run_id, tracked.info.experiment_id)
                _add_tracking(request["overrides"], spec, variables, client)
                ours = client.submit(**request, idempotency_key=run_id)
        except BaseException:
            mlflow.set_terminated(run_id, "FAILED")
            raise
        for warning in ours.warnings:
            log.warning("%s", warning)
        log.info("=== Run (ID '%s') is the run %s of tarmac ===", run_id, ours.id)
        return TarmacRun(client, run_id, ours.id)


class TarmacRun(SubmittedRun):
    """A run of MLflow, and the run of tarmac that does its work."""

    def __init__(self, client: Client, run_id: str, ours: str) -> None:
        self._client, self._run_id, self.tarmac_run_id = client, run_id, ours

    @property
    def run_id(self) -> str:
        return self._run_id

    def wait(self) -> bool:
        """Wait for its end, also that of the run of MLflow; True if it has completed."""
        ended = self._client.wait(self.tarmac_run_id)
        mlflow, until = MlflowClient(), time.monotonic() + TOLD_WITHIN_S
        while mlflow.get_run(self._run_id).info.status not in _ENDS and time.monotonic() < until:
            time.sleep(_LOOK_AGAIN_S)
        return ended.outcome is Outcome.COMPLETED

    def get_status(self) -> str:
        return status(report_of(self._client.run(self.tarmac_run_id)))

    def cancel(self) -> None:
        """Stop the run of tarmac, and wait for its end."""
        self._client.stop(self.tarmac_run_id)
        self._client.wait(self.tarmac_run_id)


def submission(
    directory: Path, entry_point: str, parameters: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[dict[str, Any], RunSpec]:
    """The arguments of `Client.submit` for a project, and the spec in its file as read here.

    The configuration is one of Mantik, fields of a run file, or `{"file": NAME}` with fields that replace
    those of the file. Raises InvalidInput.
    """
    given = {key: value for key, value in config.items() if key not in MLFLOW_KEYS}
    project = load_project(directory)
    overrides: dict[str, Any] = {"code": str(directory)}
    if _FILE in given:
        found = read_text(str(directory / str(given.pop(_FILE))), what="a run file")
        text, filename = found.text, found.filename
        dialect = choose(text, filename=filename, directory=str(directory)).name
        overrides |= given
    else:
        filename = f"{name_from_file(f'{project.name or directory.name}.x')}.json"
        text = json_text(given)
        dialect = MANTIK.name if isinstance(MANTIK.detect(filename, text), Certainty) else "native"
    extras: dict[str, Any]
    if dialect == MANTIK.name:
        values = {str(name): str(value) for name, value in parameters.items()}
        extras = {"files": companions(str(directory)), "entry_point": entry_point, "parameters": values}
    else:
        command = project.get_entry_point(entry_point).compute_command(parameters, None)
        extras = {"changes": {"command": json.dumps(command)}}
    request: dict[str, Any] = {"filename": filename, "directory": str(directory), "dialect": dialect}
    pairs = {name: tuple(value.items()) for name, value in extras.items() if isinstance(value, dict)}
    extras_here = Extras(**{**extras, **pairs}, override_fields=frozenset(overrides))
    spec = read(text, **request, extras=extras_here).spec
    if spec.array is not None:
        raise InvalidInput("an array is several runs, and a run of MLflow is one", hint="take 'array' out")
    return {"source": text, **request, "extras": extras, "overrides": overrides}, spec


def _add_tracking(
    overrides: dict[str, Any], spec: RunSpec, variables: Mapping[str, str], client: Client
) -> None:
    """Add the variables of MLflow that a file does not have, and the credentials, as secrets of the user."""
    known = {*spec.environment.variables, *(use.variable for use in spec.secrets)}
    uri = spec.environment.variables.get(TRACKING_URI, variables[TRACKING_URI])
    login = get_default_host_creds(variables[TRACKING_URI])
    added = {**variables, **({USERNAME: login.username} if login.username else {})}
    overrides["env"] = {
        **{name: value for name, value in added.items() if name not in known},
        **overrides.get("env", {}),
    }
    host = fit(urlsplit(uri).netloc)[:_LONGEST_HOST].strip("-._")
    uses = list(overrides.get("secrets", ()))
    for variable, value in ((PASSWORD, login.password), (TOKEN, login.token)):
        if value and variable not in known:
            name = f"{variable.lower().replace('_', '-')}-{host}"
            client.set_secret(name, value)
            uses.append({"name": name, "as": "variable", "variable": variable})
    if uses:
        overrides["secrets"] = uses


@contextmanager
def _errors_of_mlflow() -> Iterator[None]:
    """Raise errors of tarmac as one that MLflow shows without a traceback."""
    try:
        yield
    except TarmacError as error:
        raise ExecutionException(str(error)) from error
