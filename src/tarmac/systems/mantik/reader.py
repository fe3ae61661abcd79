"""Reads a compute backend configuration and the MLflow project beside it into a `RunSpec`.

Called by the dialect. Every problem of both files is collected before the reader raises.
"""

import posixpath
import re
from typing import Any
from urllib.parse import urlsplit

from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading
from tarmac.dialects.kinds import Kind, Misfit, line, text
from tarmac.dialects.located import Items, Scalar
from tarmac.dialects.names import name_from_file
from tarmac.dialects.problems import Problems
from tarmac.dialects.section import Section, Value
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.resources import ACCELERATOR
from tarmac.model.site import Firecrest, SiteRequest
from tarmac.model.spec import (
    Command,
    Conventions,
    Environment,
    LocalDirectory,
    Process,
    Role,
    RunSpec,
)
from tarmac.systems.mantik.environment import SiteEnvironment, read_environment
from tarmac.systems.mantik.fields import CONFIG, FIRECREST, MLFLOW_KEYS, known_part
from tarmac.systems.mantik.legacy_keys import update_keys
from tarmac.systems.mantik.mlproject import FILE_NAMES, Project, read_project
from tarmac.systems.mantik.resources import read_resources

NAME = "mantik"
SRUN_CPUS = "SRUN_CPUS_PER_TASK"
LOG = "mantik.log"


def read_mantik(text_: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
    """The spec in a configuration; raises InvalidInput with every problem in it and in its MLproject."""
    problems = Problems(filename)
    tree = compose_table(text_, problems, "keys such as 'Resources: ...' are", lenient=True)
    tree = update_keys(tree, problems)
    config = known_part(Value(tree, "", problems), CONFIG, ignored=MLFLOW_KEYS)
    assert config is not None, "the tree is a mapping"
    unicore_url, firecrest = _site(config)
    by_firecrest = firecrest is not None
    environment = read_environment(config, directory, firecrest=by_firecrest)
    resources, time_limit_s = read_resources(config, firecrest=by_firecrest)
    exclude = _exclude(config.get("Exclude"))
    beside = Problems(problems.file)
    project = _project(extras, filename=filename, beside=beside)
    _raise_all(problems, beside)
    spec = _spec(resources, environment, project, name=_name(project, filename))
    spec["time_limit_s"] = time_limit_s
    spec["site"] = replace(
        resources,
        unicore_url=unicore_url,
        firecrest=firecrest,
        apptainer=environment.apptainer,
        venv=environment.venv,
        log=LOG,
        directory_variable="MANTIK_WORKING_DIRECTORY",
    )
    spec["code"] = LocalDirectory(path=directory, exclude=exclude, whole=True)
    return Reading(spec=RunSpec(source=text_, **spec), warnings=(*problems.warnings, *beside.warnings))


def _spec(
    resources: SiteRequest, environment: SiteEnvironment, project: Project, *, name: str
) -> dict[str, Any]:
    """The parts of the spec that do not depend on a site."""
    return {
        "name": name,
        "dialect": NAME,
        "conventions": Conventions(system=NAME),
        "roles": (
            Role(
                processes=(Process(command=Command(script=project.command)),),
                replicas=None,
                slots=(resources.nodes or 1) * (resources.slots_per_node or 1),
                slot_type=ACCELERATOR if resources.slots_per_node is not None else None,
                nodes=resources.nodes or 1,
            ),
        ),
        "hooks": environment.hooks,
        "environment": Environment(
            variables=_with_srun_rule(environment, resources),
            image=_image_name(environment),
            modules=environment.modules,
        ),
    }


def _image_name(environment: SiteEnvironment) -> str | None:
    """The image as run files name it; None for a path with blanks, which only the site can use."""
    path = environment.apptainer.path if environment.apptainer is not None else None
    return path if path is not None and not re.search(r"\s", path) else None


def _with_srun_rule(environment: SiteEnvironment, resources: SiteRequest) -> dict[str, str]:
    """The variables; unless they say otherwise, srun takes the requested number of processors (K8)."""
    if resources.cpus_per_node is None:
        return dict(environment.variables)
    return {SRUN_CPUS: str(resources.cpus_per_node), **environment.variables}


def _site(config: Section) -> tuple[str | None, Firecrest | None]:
    """Exactly one of the two ways to a site (K1)."""
    if (ssh := config.get("SSH")) is not None:
        ssh.refuse(
            "a site behind SSH is in no document of this format, and is not supported",
            "name the site's UnicoreApiUrl or Firecrest",
        )
    unicore, firecrest = config.get("UnicoreApiUrl"), config.get("Firecrest")
    if unicore is not None and firecrest is not None:
        firecrest.refuse(
            "cannot stand beside 'UnicoreApiUrl'", "a run goes to one site: choose one of the two"
        )
    if (
        unicore is None
        and firecrest is None
        and ssh is None
        and not {"UnicoreApiUrl", "Firecrest"} & config.suggestions
    ):
        config.refuse(
            "either 'UnicoreApiUrl' or 'Firecrest' is needed", "tarmac sites lists those of known sites"
        )
    return (
        _url(unicore) if unicore is not None else None,
        _firecrest(firecrest) if firecrest is not None else None,
    )


def _firecrest(value: Value) -> Firecrest | None:
    section = known_part(value, FIRECREST)
    if section is None:
        return None
    for name in sorted(FIRECREST.known):
        if name not in section:
            section.missing(
                name, "firecREST needs ApiUrl, TokenUrl and Machine; tarmac sites lists known ones"
            )
    api, token = section.get("ApiUrl"), section.get("TokenUrl")
    return Firecrest(
        api_url=(_url(api) if api is not None else None) or "",
        token_url=(_url(token) if token is not None else None) or "",
        machine=section.read("Machine", line("the name of a machine", 255), ""),
    )


def _url(value: Value) -> str | None:
    if isinstance(value.node, Scalar) and has_login(value.node.text):
        value.refuse("a URL with a login in it (not shown)", "take the name and password out of the URL")
        return None
    return value.read(url(), None)


def _exclude(value: Value | None) -> tuple[str, ...]:
    """Patterns in the syntax of .gitignore (K9); one text is one pattern."""
    if value is None:
        return ()
    found: list[str] = []
    if isinstance(value.node, Items):
        found += [
            _pattern(item)
            for item in value.items("a list of names and patterns")
            if not (isinstance(item.node, Scalar) and item.node.empty)
        ]
    else:
        found.append(_pattern(value))
        if isinstance(value.node, Scalar):
            value.warn("a list is expected; the text is taken as its one item")
    return tuple(pattern for pattern in found if pattern)


def _pattern(value: Value) -> str:
    read = value.read(text("a name or pattern"), "").strip()
    if "\n" in read or "\r" in read:
        value.refuse("a pattern is one line")
    if read.startswith("#"):
        return f"\\{read}"  # .gitignore would read it as a comment
    return read.removeprefix("./")


def _project(extras: Extras, *, filename: str, beside: Problems) -> Project:
    """The MLflow project; its problems carry the name of its own file, if it has one."""
    files = {name.lower(): (name, content) for name, content in extras.files}
    found = files.get(FILE_NAMES[0].lower())
    if found is not None:
        beside.file = posixpath.join(posixpath.dirname(filename), found[0])
    return read_project(
        found[1] if found is not None else None,
        entry_point=extras.entry_point,
        parameters=dict(extras.parameters),
        problems=beside,
    )


def _raise_all(*parts: Problems) -> None:
    found: list[Problem] = []
    for problems in parts:
        try:
            problems.raise_any()
        except InvalidInput as error:
            found += error.problems
    if found:
        raise InvalidInput(found)


def _name(project: Project, filename: str) -> str:
    return name_from_file(f"{project.name}.x") if project.name else name_from_file(filename)


def url() -> Kind[str]:
    """The URL of a service, without a login in it."""

    def read(scalar: Scalar) -> str:
        found = scalar.text.strip()
        try:
            parts = urlsplit(found)
            good = parts.scheme in ("https", "http") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            good = False
        if not good or not _URL.fullmatch(found):
            raise Misfit("it begins with https://")
        return found

    return Kind("the URL of a service, such as https://firecrest.cscs.ch,", read)


def has_login(text: str) -> bool:
    """Whether a URL has a user name or password before its host."""
    return re.match(r"[a-z]+://[^/?#]*@", text, re.IGNORECASE | re.ASCII) is not None


_URL = re.compile(r"[!-~]{1,2000}", re.ASCII)
