"""Reads a launch request (the JSON that `scripts` sends) into a spec. Called by the dialect."""

import posixpath
from collections.abc import Mapping
from typing import Any

from tarmac.dialects import names
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading, refuse_extras
from tarmac.dialects.kinds import flag, matching, text
from tarmac.dialects.located import Problems
from tarmac.dialects.native.code import COMMIT, GIT_URL, REFERENCE
from tarmac.dialects.native.environment import PATH
from tarmac.dialects.native.reader import with_paths
from tarmac.dialects.schema import Custom, Field, read_value, tuple_of
from tarmac.dialects.section import Section, Value
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.spec import Conventions, LocalDirectory, Queueing, Repository, RunSpec, Target
from tarmac.systems.clusterfudge.fields import KIND, MARK, record
from tarmac.systems.clusterfudge.roles import read_roles

NAME = "clusterfudge"

LARGEST_PROJECT_BYTES = 1 << 30
"""Maximum size of an unpacked project; the client has already checked its packed size."""


def read_request(source: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
    """The spec in a request; raises InvalidInput with every problem in it."""
    refuse_extras(extras, filename=filename, dialect=NAME)
    problems = Problems(filename)
    tree = compose_table(source, problems, "a launch request is")
    found = read_value(Value(tree, "", problems), REQUEST)
    title, script = found.get("name", ""), found.get("launch_script", "")
    name = names.fit(title) or names.name_from_file(script or filename)
    renamed = [f"name: {title[:80]!r} is called {name!r} here"] if title not in ("", name) else []
    roles, short_names = found.get("jobs", ((), {}))
    facts = {
        "title": title if title != name else "",
        "description": found.get("description", ""),
        "launch_script": script,
        "short_names": short_names,
    }
    # A launch waits only if the request says so (C10).
    waits = found.get("queueing_behaviour", {"enqueue_if_cluster_busy": False})
    spec = RunSpec(
        name=name,
        dialect=NAME,
        source=source,
        conventions=Conventions(system=NAME, facts={name: fact for name, fact in facts.items() if fact}),
        roles=roles,
        code=found.get("deployment"),
        target=Target(
            cluster=found.get("cluster"), shard=found.get("shard"), hostnames=found.get("hostnames", ())
        ),
        queueing=Queueing.WAIT if waits.get("enqueue_if_cluster_busy", True) else Queueing.FAIL_IF_BUSY,
    )
    problems.raise_any()
    spec = with_paths(spec, lambda path: posixpath.normpath(posixpath.join(directory, path)))
    return Reading(spec=spec, warnings=(*renamed, *problems.warnings))


def _one_deployment(section: Section, _found: Mapping[str, Any]) -> None:
    section.exclude("local_dir", "git_repo", reason="a launch has one deployment")
    if "local_dir" not in section and "git_repo" not in section:
        section.refuse(
            "deployment must be a LocalDir or GitRepo", "local_dir: PATH, or git_repo: {repo: ...}"
        )


def _deployment(
    local_dir: str | None = None, git_repo: Repository | None = None
) -> LocalDirectory | Repository | None:
    if local_dir is None:
        return git_repo
    return LocalDirectory(path=local_dir, whole=True, limit_bytes=LARGEST_PROJECT_BYTES)


REPOSITORY = record(
    {
        "repo": Field(GIT_URL, sets="url", words="url", required="the URL of the repository"),
        "branch": Field(REFERENCE, required="a GitRepo names its branch, also where it names a commit"),
        "commit": Field(COMMIT, words="sha rev"),
    },
    make=Repository,
)
DEPLOYMENT = record({"local_dir": PATH, "git_repo": REPOSITORY}, _one_deployment, make=_deployment)
QUEUEING = record({"enqueue_if_cluster_busy": Field(flag(), words="queue_launch enqueue")})
REQUEST = record(
    {
        MARK: matching(KIND, f"the word {KIND}"),
        "launch_script": text(),
        "launch_script_body": text("the text of a script"),
        "name": Field(text("a name"), words="title"),
        "description": text(),
        "jobs": Field(Custom(read_roles), words="job", required="a launch has at least one job"),
        "deployment": DEPLOYMENT,
        "cluster": names.NAME,
        "shard": names.NAME,
        "hostnames": Field(tuple_of(names.HOSTNAME, "a list of host names"), words="hosts"),
        "queueing_behaviour": Field(QUEUEING, words="queueing"),
    }
)
