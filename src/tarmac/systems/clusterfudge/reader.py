"""Reads a launch request (the JSON that `scripts` sends) into a spec. Called by the dialect."""

from dataclasses import replace
from typing import Any

from tarmac.dialects import names
from tarmac.dialects.conventions import refuse_extras
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading
from tarmac.dialects.kinds import flag, matching, text
from tarmac.dialects.located import Items, Node, Scalar, Table
from tarmac.dialects.native.code import COMMIT, GIT_URL, REFERENCE
from tarmac.dialects.native.environment import path_from
from tarmac.dialects.problems import Problems
from tarmac.dialects.schema import MISSING, Field, read_value, record
from tarmac.dialects.section import Section
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.spec import Conventions, LocalDirectory, Queueing, Repository, RunSpec, Target
from tarmac.systems.clusterfudge.fields import DEPLOYMENT, KIND, MARK, REQUEST
from tarmac.systems.clusterfudge.roles import Roles, read_roles

NAME = "clusterfudge"

LARGEST_PROJECT_BYTES = 1 << 30
"""Maximum size of an unpacked project; the client has already checked its packed size."""

_KIND = matching(KIND, f"the word {KIND}")


def read_request(source: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
    """The spec in a request; raises InvalidInput with every problem in it."""
    refuse_extras(extras, filename=filename, dialect=NAME)
    problems = Problems(filename)
    tree = compose_table(source, problems, "a launch request is")
    request = Section(_without_nulls(tree), REQUEST, problems=problems)
    request.read(MARK, _KIND, None)
    script = request.read("launch_script", text(), "")
    request.read("launch_script_body", text("the text of a script"), None)
    title = _title(request)
    name = _name(request, title, script or filename)
    roles = read_roles(request)
    facts = _facts(request, roles, title=title if title != name else "", script=script)
    spec = RunSpec(
        name=name,
        dialect=NAME,
        source=source,
        conventions=Conventions(system=NAME, facts=facts),
        roles=roles.roles,
        code=_code(request, directory),
        target=Target(
            cluster=request.read("cluster", names.NAME, None),
            shard=request.read("shard", names.NAME, None),
            hostnames=request.read_list("hostnames", names.HOSTNAME, "a list of host names"),
        ),
        queueing=_queueing(request),
    )
    problems.raise_any()
    return Reading(spec=spec, warnings=tuple(problems.warnings))


def _without_nulls(table: Table) -> Table:
    """The mapping without null values, at any depth: null means not given."""

    def cleaned(node: Node) -> Node:
        if isinstance(node, Table):
            return _without_nulls(node)
        if isinstance(node, Items):
            return replace(node, items=tuple(cleaned(item) for item in node.items))
        return node

    entries = (
        (key, value) for key, value in table.entries if not (isinstance(value, Scalar) and value.empty)
    )
    return replace(table, entries=tuple((key, cleaned(value)) for key, value in entries))


def _title(request: Section) -> str:
    value = request.get("name")
    return value.read(text("a name"), "") if value is not None else ""


def _name(request: Section, title: str, fallback: str) -> str:
    """The run's name: the launch's in valid form, else the name of its script."""
    if not title:
        return names.name_from_file(fallback)
    fit = names.fit(title) or names.name_from_file(fallback)
    if fit != title:
        request.problems.warn(None, f"name: {title[:80]!r} is called {fit!r} here")
    return fit


def _facts(request: Section, roles: Roles, *, title: str, script: str) -> dict[str, Any]:
    """Facts for variables and displays beyond the spec; empty ones are left out."""
    description = request.get("description")
    facts = {
        "title": title,
        "description": description.read(text(), "") if description is not None else "",
        "launch_script": script,
        "short_names": dict(roles.short_names),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _queueing(request: Section) -> Queueing:
    """The queueing of the launch: it waits only if the request says so (C10)."""
    value = request.get("queueing_behaviour")
    found = read_value(value, QUEUEING) if value is not None else MISSING
    waits = found is not MISSING and found.get("enqueue_if_cluster_busy", True)
    return Queueing.WAIT if waits else Queueing.FAIL_IF_BUSY


def _code(request: Section, directory: str) -> LocalDirectory | Repository | None:
    value = request.get("deployment")
    section = value.section(DEPLOYMENT) if value is not None else None
    if value is None or section is None:
        return None
    section.exclude("local_dir", "git_repo", reason="a launch has one deployment")
    if "local_dir" in section:
        path = section.read("local_dir", path_from(directory), None)
        if path is None:
            return None
        return LocalDirectory(path=path, whole=True, limit_bytes=LARGEST_PROJECT_BYTES)
    repository = section.get("git_repo")
    if repository is None:
        value.refuse("deployment must be a LocalDir or GitRepo", "local_dir: PATH, or git_repo: {repo: ...}")
        return None
    found = read_value(repository, REPOSITORY)
    return None if found is MISSING else found


REPOSITORY = record(
    {
        "repo": Field(GIT_URL, sets="url", words="url", required="the URL of the repository"),
        "branch": Field(REFERENCE, required="a GitRepo names its branch, also where it names a commit"),
        "commit": Field(COMMIT, words="sha rev"),
    },
    make=Repository,
)
QUEUEING = record({"enqueue_if_cluster_busy": Field(flag(), words="queue_launch enqueue")})
