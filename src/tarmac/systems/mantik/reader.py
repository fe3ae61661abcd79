"""Reads a compute backend configuration and the MLflow project beside it into a `RunSpec`.

Called by the dialect. Every problem of both files is collected before the reader raises.
"""

import posixpath
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tarmac.dialects import schema
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading
from tarmac.dialects.kinds import Kind, Misfit, line, text
from tarmac.dialects.located import Items, Problems, Scalar, Table
from tarmac.dialects.names import name_from_file
from tarmac.dialects.section import Section, Value
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.resources import ACCELERATOR
from tarmac.model.site import Firecrest, SiteRequest, check_value
from tarmac.model.spec import Command, Conventions, LocalDirectory, Process, Role, RunSpec
from tarmac.systems.mantik.environment import ENVIRONMENT, located, read_environment, read_old_image
from tarmac.systems.mantik.fields import record
from tarmac.systems.mantik.legacy_keys import update_keys
from tarmac.systems.mantik.mlproject import Project, read_project
from tarmac.systems.mantik.resources import RESOURCES

NAME = "mantik"
SRUN_CPUS = "SRUN_CPUS_PER_TASK"
LOG = "mantik.log"
ACCOUNT = "MANTIK_COMPUTE_BUDGET_ACCOUNT"
MLFLOW_KEYS = frozenset(
    {"ENV_MANAGER", "SYNCHRONOUS", "DOCKER_ARGS", "STORAGE_DIR", "PROJECT_DIR", "build_image", "docker_auth"}
)
"""Keys that MLflow itself adds to a backend's configuration: they say nothing about the run."""


def read_mantik(text_: str, *, filename: str, directory: str, extras: Extras = NO_EXTRAS) -> Reading:
    """The spec in a configuration; raises InvalidInput with every problem in it and in its MLproject."""
    problems = Problems(filename)
    tree = compose_table(text_, problems, "keys such as 'Resources: ...' are", lenient=True)
    tree = update_keys(tree, problems)
    shape = CONFIG[isinstance(tree.values.get("Firecrest"), Table)]
    config = schema.section_of(Value(tree, "", problems), shape)
    assert config is not None, "the tree is a mapping"
    values = schema.attributes(schema.read_fields(config, shape), shape)
    exclude = values.pop("Exclude", ())
    for part in ("Environment", "Resources"):
        values |= values.pop(part, {})
    beside = Problems(problems.file)
    project = _project(extras, filename=filename, beside=beside)
    if found := [problem for part in (problems, beside) for problem in part.listed]:
        raise InvalidInput(found)
    name = name_from_file(f"{project.name}.x" if project.name else filename)
    spec = RunSpec(
        name=name,
        dialect=NAME,
        source=text_,
        conventions=Conventions(system=NAME),
        roles=(),
        code=LocalDirectory(path=directory, exclude=exclude, whole=True),
        site=SiteRequest(queue="", log=LOG, directory_variable="MANTIK_WORKING_DIRECTORY"),
        slurm=_account(extras),
    )
    spec = _completed(schema.with_values(spec, values), project.command, directory)
    return Reading(spec=spec, warnings=(*problems.warnings, *beside.warnings))


def _account(extras: Extras) -> Mapping[str, str | None]:
    """The directive of the account that the submitter's shell names."""
    account = dict(extras.variables).get(ACCOUNT)
    if account is None:
        return {}
    try:
        return {"account": check_value(account)}
    except InvalidInput as error:
        raise InvalidInput(f"{ACCOUNT} of your shell: {error.message}", hint=error.hint) from None


def _completed(spec: RunSpec, command: str | None, directory: str) -> RunSpec:
    """The spec with its one role, and an environment and image that suit its request to the site."""
    site, variables = spec.site, spec.environment.variables
    assert site is not None, "it was made with one"
    image = located(site.apptainer, directory) if site.apptainer is not None else None
    role = Role(
        processes=(Process(command=Command(script=command)),),
        replicas=None,
        slots=(site.nodes or 1) * (site.slots_per_node or 1),
        slot_type=ACCELERATOR if site.slots_per_node is not None else None,
        nodes=site.nodes or 1,
    )
    if site.cpus_per_node is not None:  # unless the file says otherwise, srun takes that many (K8)
        variables = {SRUN_CPUS: str(site.cpus_per_node), **variables}
    # Run files have no form for a path with blanks, which only the site can use.
    name = image.path if image is not None and not re.search(r"\s", image.path) else None
    return replace(
        spec,
        roles=(role,),
        environment=replace(spec.environment, variables=variables, image=name),
        site=replace(site, apptainer=image),
    )


def _check(config: Section, _found: Mapping[str, Any]) -> None:
    """Exactly one of the two ways to a site (K1)."""
    if "UnicoreApiUrl" in config and "Firecrest" in config:
        config["Firecrest"].refuse(
            "cannot stand beside 'UnicoreApiUrl'", "a run goes to one site: choose one of the two"
        )
    if not any(
        name in config or name in config.suggestions for name in ("UnicoreApiUrl", "Firecrest", "SSH")
    ):
        config.refuse(
            "either 'UnicoreApiUrl' or 'Firecrest' is needed", "tarmac sites lists those of known sites"
        )


def _refuse_ssh(value: Value) -> Any:
    value.refuse(
        "a site behind SSH is in no document of this format, and is not supported",
        "name the site's UnicoreApiUrl or Firecrest",
    )
    return schema.MISSING


def _exclude(value: Value) -> tuple[str, ...]:
    """Patterns in the syntax of .gitignore (K9); one text is one pattern."""
    items = [value]
    if isinstance(value.node, Items):
        listed = value.items("a list of names and patterns")
        items = [item for item in listed if not (isinstance(item.node, Scalar) and item.node.empty)]
    elif isinstance(value.node, Scalar):
        value.warn("a list is expected; the text is taken as its one item")
    return tuple(pattern for item in items if (pattern := _pattern(item)))


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
    found = files.get("mlproject")  # MLflow ignores case
    if found is not None:
        beside.file = posixpath.join(posixpath.dirname(filename), found[0])
    return read_project(
        found[1] if found is not None else None,
        entry_point=extras.entry_point,
        parameters=dict(extras.parameters),
        problems=beside,
    )


def _url(value: Value) -> Any:
    """The URL of a service; one with a login in it is refused without showing it."""
    url = value.node.text.strip() if isinstance(value.node, Scalar) else ""
    if re.match(r"[a-z]+://[^/?#]*@", url, re.IGNORECASE | re.ASCII):
        value.refuse("a URL with a login in it (not shown)", "take the name and password out of the URL")
        return schema.MISSING
    return value.read(_SERVICE, schema.MISSING)


def _service(scalar: Scalar) -> str:
    found = scalar.text.strip()
    try:
        parts = urlsplit(found)
        good = parts.scheme in ("https", "http") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not re.fullmatch(r"[!-~]{1,2000}", found):
        raise Misfit("it begins with https://")
    return found


_SERVICE = Kind("the URL of a service, such as https://firecrest.cscs.ch,", _service)
_URL = schema.Custom(_url)
_NEEDS = "firecREST needs ApiUrl, TokenUrl and Machine; tarmac sites lists known ones"
FIRECREST = record(
    {
        "ApiUrl": schema.Field(_URL, sets="api_url", words="url", required=_NEEDS),
        "Machine": schema.Field(
            line("the name of a machine", 255), sets="machine", words="system", required=_NEEDS
        ),
        "TokenUrl": schema.Field(_URL, sets="token_url", words="authurl", required=_NEEDS),
    },
    make=Firecrest,
)


def _config(*, firecrest: bool) -> schema.Record:
    inside = ENVIRONMENT[firecrest]
    return record(
        {
            "UnicoreApiUrl": schema.Field(_URL, sets="site.unicore_url", words="unicore unicoreurl"),
            "Firecrest": schema.Field(FIRECREST, sets="site.firecrest"),
            "SSH": schema.Custom(_refuse_ssh),
            "SingularityImage": schema.Field(schema.Custom(read_old_image), sets="site.apptainer"),
            "Environment": schema.Field(
                schema.Custom(
                    lambda value: read_environment(value, inside), within=schema.fields_of(inside, depth=0)
                ),
                words="env",
            ),
            "Resources": schema.Field(
                RESOURCES[firecrest], required="add 'Resources:' with at least 'Queue: ...'"
            ),
            "Exclude": schema.Custom(_exclude),
        },
        _check,
        silent=MLFLOW_KEYS,
    )


CONFIG = {firecrest: _config(firecrest=firecrest) for firecrest in (False, True)}
"""The tables of a configuration for UNICORE and for firecREST."""
