"""Reads a native run file to a `RunSpec`, every problem reported, and writes one. Called by the dialect.

`tarmac convert` writes `conventions` and `site` for other systems; people seldom write these by hand.
"""

import posixpath
from collections.abc import Callable

from tarmac.dialects import names
from tarmac.dialects.changes import change
from tarmac.dialects.conventions import refuse_extras
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading
from tarmac.dialects.kinds import plain
from tarmac.dialects.native.fields import RUN, check_cycles
from tarmac.dialects.native.roles import ROLE, read_role, written_roles
from tarmac.dialects.native.search import complete_search, written_parameters
from tarmac.dialects.plain import to_yaml
from tarmac.dialects.problems import Problems
from tarmac.dialects.rehearsals import with_rehearsal
from tarmac.dialects.schema import attributes, fields_of, read_fields, with_values, write_record
from tarmac.dialects.section import Section
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.spec import Environment, LocalDirectory, RunSpec

NAME = "native"


def read_native(text: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
    """The spec in a native run file; raises InvalidInput with every problem in it."""
    refuse_extras(extras, filename=filename, dialect=NAME)
    problems = Problems(filename)
    tree = compose_table(text, problems, "fields such as 'command: ...' are")
    run = Section(change(tree, extras.changes, problems), fields_of(RUN), problems=problems)
    spec = _spec(run, RunSpec(name=names.name_from_file(filename), roles=(), dialect=NAME, source=text))
    problems.raise_any()
    spec = with_paths(spec, lambda path: posixpath.normpath(posixpath.join(directory, path)))
    return Reading(spec=with_rehearsal(spec, spec.rehearsal), warnings=tuple(problems.warnings))


def with_paths(spec: RunSpec, move: Callable[[str], str]) -> RunSpec:
    """The spec whose paths of the submitter's machine are moved."""
    if isinstance(spec.code, LocalDirectory):
        spec = replace(spec, code=replace(spec.code, path=move(spec.code.path)))
    if (venv := spec.environment.venv) is not None:
        spec = replace(spec, environment=replace(spec.environment, venv=move(venv)))
    return spec


def _spec(run: Section, usual: RunSpec) -> RunSpec:
    """The spec of the fields in a file; reports fields that contradict each other."""
    found = read_fields(run, RUN)
    run.exclude("roles", *ROLE.fields, reason="move it into a role")
    roles = found.get("roles", ()) if "roles" in run else read_role(run, found)
    values = {**attributes(found, RUN), "roles": roles}
    check_cycles(run, found.get("mode", Mode.BATCH))
    if (search := complete_search(run, found.get("search"))) is not None:
        values |= {"search": search, "parameters": None}
    if (short := run.get("env")) is not None and "env" in found:
        variables = found.get("environment", Environment()).variables
        for name in variables.keys() & found["env"].keys():
            short.refuse(f"{name} is set here and in environment.variables")
        values["environment.variables"] = {**variables, **found["env"]}
    spec = with_values(usual, values)
    if spec.site is not None and any(role.launcher is not None for role in spec.roles):
        run.refuse("a run for a site starts its own processes: 'launcher' cannot stand beside 'site'")
    if search is not None and search.max_slots is not None and search.max_slots < spec.slots:
        run.refuse(
            f"search.max_slots ({search.max_slots}) is less than a trial asks for ({spec.slots} slots)"
        )
    return spec


def write(spec: RunSpec, *, directory: str | None = None) -> str:
    """The native run file for a spec; paths below `directory` are written relative to it."""
    if directory is not None:
        spec = with_paths(spec, lambda path: _relative(path, directory))
    fields = write_record(spec, RUN) | written_roles(spec.roles)
    if spec.search is not None:
        fields["parameters"] = plain(written_parameters(spec.search))
    elif spec.parameters is not None:  # without entries, the run still gets a file of them
        fields["parameters"] = plain(spec.parameters)
    return to_yaml({name: fields[name] for name in RUN.fields if name in fields})


def _relative(path: str, directory: str) -> str:
    """A path of the submitter's machine, relative to the run file's directory if it is below it."""
    below = posixpath.relpath(path, directory)
    return path if below.startswith("..") else below
