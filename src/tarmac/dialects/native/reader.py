"""The native dialect, tarmac's own YAML: detects, reads and writes it, with all problems. For `registry`.

`tarmac convert` writes `conventions` and `site` for other systems; people seldom write these by hand.
Changes by path, as in `tarmac run --set resources.cpus=4`, apply before the reader checks: a changed value
has the change as its origin, not a line, so messages name `--set resources.cpus`.
"""

import dataclasses
import posixpath
from collections.abc import Callable, Sequence
from typing import Any

from tarmac.dialects import dialect, names
from tarmac.dialects.kinds import plain
from tarmac.dialects.located import Items, Node, Placed, Problems, Scalar, Table, moved, quote
from tarmac.dialects.native.burst import check_burst
from tarmac.dialects.native.fields import RUN, check_cycles, with_rehearsal
from tarmac.dialects.native.roles import ROLE, read_role, written_roles
from tarmac.dialects.native.search import complete_search, written_parameters
from tarmac.dialects.plain import to_yaml
from tarmac.dialects.schema import attributes, fields_of, read_fields, with_values, write_record
from tarmac.dialects.section import Section
from tarmac.dialects.yaml_tree import compose, compose_table
from tarmac.model.changes import as_it_is
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem, nearest
from tarmac.model.lifecycle import Mode
from tarmac.model.spec import Environment, LocalDirectory, RunSpec

NAME = "native"


def read_native(
    text: str, *, filename: str, directory: str, extras: dialect.Extras = dialect.NO_EXTRAS
) -> dialect.Reading:
    """The spec in a native run file; raises InvalidInput with every problem in it."""
    dialect.refuse_extras(extras, filename=filename, dialect=NAME)
    problems = Problems(filename)
    tree = compose_table(text, problems, "fields such as 'command: ...' are")
    run = Section(change(tree, extras.changes, problems), fields_of(RUN), problems=problems)
    spec = _spec(run, RunSpec(name=names.name_from_file(filename), roles=(), dialect=NAME, source=text))
    problems.raise_any()
    spec = with_paths(spec, lambda path: posixpath.normpath(posixpath.join(directory, path)))
    return dialect.Reading(spec=with_rehearsal(spec, spec.rehearsal), warnings=tuple(problems.warnings))


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
    check_burst(run, found.get("mode", Mode.BATCH))
    search = complete_search(run, found.get("search")) if "search" in run else None
    if search is not None:
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
    return to_yaml(written(spec))


def written(spec: RunSpec) -> dict[str, Any]:
    """The fields of the native run file for a spec, as JSON."""
    fields = write_record(spec, RUN) | written_roles(spec.roles)
    if spec.search is not None:
        fields["parameters"] = plain(written_parameters(spec.search))
    elif spec.parameters is not None:  # without entries, the run still gets a file of them
        fields["parameters"] = plain(spec.parameters)
    return {name: fields[name] for name in RUN.fields if name in fields}


def _relative(path: str, directory: str) -> str:
    """A path of the submitter's machine, relative to the run file's directory if it is below it."""
    below = posixpath.relpath(path, directory)
    return path if below.startswith("..") else below


def _detect(filename: str, text: str) -> dialect.Detection:
    """Certain for a mapping of known fields with something to execute; possible for any known field.

    A text that is not YAML is detected by its file name, so that the reader can locate its error.
    """
    problems = Problems(filename)
    tree = compose(text, problems)
    if tree is not None:
        return _judge(tree)
    return dialect.Certainty.POSSIBLE if filename.endswith((".yaml", ".yml")) else problems.found[0]


def _judge(tree: Node) -> dialect.Detection:
    if not isinstance(tree, Table):
        return Problem(message=f"fields such as 'command: ...' are expected, not {quote(tree)}")
    keys = {key.text for key, _ in tree.entries}
    ours = _FIELDS.known
    if keys <= ours and keys & _ACTS:
        return dialect.Certainty.CERTAIN
    like_ours = [key for key in keys if _like(key, ours)]
    if 2 * len(like_ours) >= len(keys) > 0 or any(_like(key, _ACTS) for key in like_ours):
        return dialect.Certainty.POSSIBLE
    found = ", ".join(repr(key)[:40] for key in sorted(keys)[:5]) or "nothing"
    few = "none" if not like_ours else "too few"
    verb = "is" if not like_ours else "are"
    return Problem(message=f"{few} of its fields {verb} known (found: {found})")


def _like(key: str, ours: frozenset[str]) -> bool:
    """Whether a key is one of these, another system's word for one, or nearly one."""
    return key in ours or _FIELDS.synonyms.get(key) in ours or nearest(key, ours, cutoff=_CLOSE) is not None


_FIELDS = fields_of(RUN)
_CLOSE = 0.75
_ACTS = frozenset({"command", "roles", "processes"})
"""The fields with something to execute."""


def _status(report: dialect.Report) -> str:
    """tarmac's own word."""
    return (report.outcome or report.state).value


NATIVE = dialect.Dialect(
    name=NAME, detect=_detect, read=read_native, apply_conventions=as_it_is, status=_status
)


Changes = Sequence[tuple[str, str]]
"""Dotted paths, each with the text of a YAML value; the last of equal paths counts."""


def change(tree: Table, changes: Changes, problems: Problems) -> Table:
    """The tree with these values at these paths; reports a path that does not exist as a problem."""
    for path, text in changes:
        origin = f"--set {path}"
        value = _value(text, origin, problems)
        if value is None:
            continue
        parts = path.split(".")
        if "" in parts:
            problems.add(Placed(origin=origin), "a path has no empty part", "such as resources.cpus")
            continue
        try:
            changed = _with(tree, _as_written(tree, parts), value, origin)
        except InvalidInput as error:
            problems.add(Placed(origin=origin), error.message, error.hint)
            continue
        assert isinstance(changed, Table), "a mapping stays one"
        tree = changed
    return tree


def _value(text: str, origin: str, problems: Problems) -> Node | None:
    """The YAML value of a text; None, with a problem reported, if the text is not one."""
    if not text.strip():
        return Scalar(text="", origin=origin)
    own = Problems(origin)
    node = compose(text, own)
    if node is None and not own.found:
        return Scalar(text="", origin=origin)
    for problem in own.found:
        hint = problem.hint or "quote a text that YAML reads otherwise"
        problems.add(Placed(origin=origin), problem.message, hint)
    return None if node is None else moved(node, origin)


def _as_written(tree: Table, parts: list[str]) -> list[str]:
    """The path, where variables are named by the one of the two field names that the file uses."""
    if parts[:2] == _VARIABLES and "env" in tree.values:
        return ["env", *parts[2:]]
    environment = tree.values.get("environment")
    if parts[0] == "env" and isinstance(environment, Table) and "variables" in environment.values:
        return parts if "env" in tree.values else [*_VARIABLES, *parts[1:]]
    return parts


_VARIABLES = ["environment", "variables"]


def _with(node: Node | None, parts: Sequence[str], value: Node, origin: str) -> Node:
    """The node with the value at a path below it; creates the mappings that are missing on the way.

    Raises InvalidInput for a path into a value without parts, or beyond the end of a list.
    """
    if not parts:
        return value
    part, rest = parts[0], parts[1:]
    if node is None or (isinstance(node, Scalar) and node.empty):
        node = Table(entries=(), origin=origin)
    if isinstance(node, Items):
        return _with_item(node, part, rest, value, origin)
    if isinstance(node, Scalar):
        raise InvalidInput(f"{quote(node)} stands before {part!r}, and has no parts")
    if part not in node.values:
        added = _with(None, rest, value, origin)
        return dataclasses.replace(node, entries=(*node.entries, (_key(part, origin), added)))
    entries = tuple(
        (key, _with(item, rest, value, origin) if key.text == part else item) for key, item in node.entries
    )
    return dataclasses.replace(node, entries=entries)


def _with_item(node: Items, part: str, rest: Sequence[str], value: Node, origin: str) -> Node:
    count = len(node.items)
    if not (part.isascii() and part.isdigit()) or int(part) > count:
        hint = f"write a number from 0 to {count}; {count} adds one"
        raise InvalidInput(f"{part!r} is no place in a list of {count}", hint=hint)
    at = int(part)
    items = list(node.items)
    items[at : at + 1] = [_with(items[at] if at < count else None, rest, value, origin)]
    return dataclasses.replace(node, items=tuple(items))


def _key(text: str, origin: str) -> Scalar:
    return Scalar(text=text, quoted=True, origin=origin)
