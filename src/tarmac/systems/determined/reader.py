"""Reads an experiment configuration: checks it as Determined does, merges, completes, makes a `RunSpec`.

Called by the dialect.
"""

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tarmac.dialects import names
from tarmac.dialects.dialect import NO_EXTRAS, Extras, Reading, refuse_extras
from tarmac.dialects.kinds import LARGEST_TEXT_BYTES
from tarmac.dialects.located import Node, Problems, Table
from tarmac.dialects.schema import read_value
from tarmac.dialects.secrets import reference_in
from tarmac.dialects.section import Value
from tarmac.dialects.yaml_tree import compose_table
from tarmac.model import spec
from tarmac.model.progress import LogAction, LogPolicy
from tarmac.model.resources import Resources
from tarmac.model.search import SearchSpec
from tarmac.model.secret import SecretForm, SecretUse
from tarmac.node.files.secrecy import is_reference, names_secret
from tarmac.systems.determined.context import context_of
from tarmac.systems.determined.defaults import NO_DEFAULTS, ClusterDefaults
from tarmac.systems.determined.entrypoint import read_entrypoint
from tarmac.systems.determined.fields import EXPERIMENT, memory_bytes
from tarmac.systems.determined.library import library_fact
from tarmac.systems.determined.merging import complete, merge, normalise
from tarmac.systems.determined.overrides import override_values
from tarmac.systems.determined.search import search_of
from tarmac.systems.determined.searchers import SINGLE
from tarmac.systems.determined.statuses import SCALE
from tarmac.systems.determined.storage import DEFAULT_STORAGE, note_missing

NAME = "determined"

NO_PROJECT = "Uncategorized"
"""Determined's project of experiments that name none."""

USER_TOKEN = "DET_USER_TOKEN"
"""The token by which code calls the gateway for a user: a run may set another one than its own."""

MOST_RETRIES = 1_000
WORK_DIRECTORY = "/run/determined/workdir"
"""The literal path where configurations and scripts expect the context."""


def read_experiment(
    text: str,
    *,
    filename: str,
    directory: str,
    extras: Extras = NO_EXTRAS,
    defaults: ClusterDefaults = NO_DEFAULTS,
) -> Reading:
    """The spec in an experiment configuration; raises InvalidInput with every problem in it.

    The parameters in `extras` replace values of the file: each is a dotted path and a text of YAML.
    """
    refuse_extras(replace(extras, parameters=()), filename=filename, dialect=NAME)
    problems = Problems(filename)
    tree = compose_table(text, problems, "fields such as 'entrypoint: ...' are", lenient=True)
    tree = override_values(tree, extras.parameters, problems)
    record = read_value(Value(tree, "", problems), EXPERIMENT)
    file = _File(tree, problems)
    config = _whole(record, filename, defaults)
    found = spec.RunSpec(
        name=file.name(record.get("name"), names.name_from_file(filename)),
        project=project if (project := names.fit(config["project"])) not in ("", NO_PROJECT) else "default",
        dialect=NAME,
        source=text,
        conventions=spec.Conventions(system=NAME, facts=_facts(config, defaults)),
        roles=(file.role(record, config),),
        code=context_of(directory),
        target=spec.Target(pool=file.pool(config["resources"]["resource_pool"])),
        priority=SCALE.to_tarmac(config["resources"]["priority"] or defaults.priority),
        weight=float(config["resources"]["weight"]) if config["resources"]["weight"] > 0 else 1.0,
        retries=file.retries(config["max_restarts"]),
        pause=spec.PausePolicy(signal=None, grace_s=float(config["preemption_timeout"])),
        environment=file.environment(config),
        secrets=file.registry_secret(config),
        binds=tuple(
            spec.Bind(
                source=_bare(item["host_path"]),
                target=_below_work(_bare(item["container_path"])),
                read_only=item["read_only"],
            )
            for item in config["bind_mounts"]
        ),
        search=file.search(record, config),
        labels=labels_of(config),
        log_policies=_log_policies(config),
    )
    file.check_storage(record, config["checkpoint_storage"])
    file.refuse_too_large(config)
    problems.raise_any()
    return Reading(spec=found, warnings=tuple(problems.warnings))


def _whole(record: Mapping[str, Any], filename: str, defaults: ClusterDefaults) -> dict[str, Any]:
    """The configuration that a run of Determined would get."""
    below = {"checkpoint_storage": dict(DEFAULT_STORAGE), **defaults.config}
    config = complete(merge(normalise(record), below, EXPERIMENT), EXPERIMENT)
    del config["version"]
    config["name"] = config["name"] or f"Experiment ({names.name_from_file(filename)})"
    return config


def _facts(config: Mapping[str, Any], defaults: ClusterDefaults) -> dict[str, Any]:
    facts: dict[str, Any] = {"config": mask(config)}
    if defaults.startup_hook:
        facts["startup_hook"] = defaults.startup_hook
    return facts | library_fact(defaults.library, config)


class _File:
    """A file during reading: turns parts of its configuration into parts of a spec, problems located."""

    def __init__(self, tree: Table, problems: Problems) -> None:
        self._tree = tree
        self._problems = problems

    def search(self, record: Mapping[str, Any], config: Mapping[str, Any]) -> SearchSpec | None:
        """The search; None for a single trial, or if the search has a problem."""
        word = (record.get("searcher") or {}).get("name", SINGLE)
        if word == SINGLE or self._problems:
            return None
        return search_of(config)

    def name(self, name: str | None, usual: str) -> str:
        """A valid run name, derived from any text."""
        if not name:
            return usual
        fit = names.fit(name)
        if _letters(fit) != _letters(name):  # blanks and signs become '-' without a warning
            self._warn("name", f"the run is called {fit or usual!r} here: names are short, without accents")
        return fit or usual

    def role(self, record: Mapping[str, Any], config: Mapping[str, Any]) -> spec.Role:
        """The trial: its entry point once on each node."""
        resources = config["resources"]
        slots = resources["slots_per_trial"]
        if (most := resources["max_slots"]) is not None and most < slots:
            self._warn(
                "resources", f"max_slots ({most}) is less than slots_per_trial ({slots}): it is not applied"
            )
        command = spec.Command(argv=("true",))
        if "entrypoint" in record:
            command = read_entrypoint(self._at("entrypoint"), record["entrypoint"])
        if slots == 0:
            return spec.Role(processes=(spec.Process(command=command),))
        if resources["is_single_node"]:
            return spec.Role(processes=(spec.Process(command=command, resources=Resources(slots=slots)),))
        return spec.Role(processes=(spec.Process(command=command),), replicas=None, slots=slots)

    def pool(self, name: str) -> str | None:
        return self._at("resources", "resource_pool").read(names.NAME, None) if name else None

    def retries(self, restarts: int) -> int:
        if restarts > MOST_RETRIES:
            self._warn("max_restarts", f"at most {MOST_RETRIES} here")
        return min(restarts, MOST_RETRIES)

    def environment(self, config: Mapping[str, Any]) -> spec.Environment:
        """Variables and image for the device kind of the trial."""
        kind = "cuda" if config["resources"]["slots_per_trial"] > 0 else "cpu"
        settings = config["environment"]
        image = (settings["image"] or {}).get(kind)
        return spec.Environment(
            variables=self._variables(settings["environment_variables"].get(kind) or []),
            image=image,
            pull_always=settings["force_pull_image"],
            shared_memory_bytes=memory_bytes(config["resources"]["shm_size"]),
        )

    def registry_secret(self, config: Mapping[str, Any]) -> tuple[SecretUse, ...]:
        """The secret that `registry_auth` names, in place of a password."""
        login = config["environment"]["registry_auth"] or {}
        keys = [login[key] for key in ("password", "auth") if login.get(key)]
        references = [name for name in map(reference_in, keys) if name is not None]
        if keys and not references:
            self._warn(
                "environment.registry_auth",
                "it holds a password, which belongs into no file, and is not used: keep "
                "USER:PASSWORD by 'tarmac secret set NAME --as registry', and write "
                "'password: ${{ secrets.NAME }}'",
            )
        return tuple(SecretUse(name=name, form=SecretForm.REGISTRY) for name in references[:1])

    def check_storage(self, record: Mapping[str, Any], storage: Mapping[str, Any]) -> None:
        """Warn of the effect of the storage here, and report what file and cluster together lack."""
        if "checkpoint_storage" in record:
            note_missing(self._at("checkpoint_storage"), storage)
            self._warn(
                "checkpoint_storage",
                "is kept for the run to read; what tarmac itself keeps is what the run writes to "
                "$CHECKPOINT_ARTIFACT_PATH",
            )
        if mask(record) != record:
            self._problems.warn(
                None,
                "the file holds a password or key, and its text stays in the record of the run: a file of "
                "the node is a better place",
            )

    def refuse_too_large(self, config: Mapping[str, Any]) -> None:
        """Report a configuration that is too large for the one variable in which a run gets it."""
        size = len(json.dumps(mask(config)))
        if size > LARGEST_TEXT_BYTES:
            self._problems.add(
                self._tree,
                f"with defaults it has {size:,} characters; {LARGEST_TEXT_BYTES:,} are allowed",
                "put data into files of the context",
            )

    def _variables(self, listed: list[str]) -> dict[str, str]:
        variables: dict[str, str] = {}
        for item in listed:
            name, equals, value = item.partition("=")
            if not equals:
                self._warn("environment.environment_variables", f"{name} has no value, so it is not set")
                continue
            if names.reserved(name) or (name.startswith("DET_") and name != USER_TOKEN):
                self._warn(
                    "environment.environment_variables", f"{name} is set for every run: this value is lost"
                )
                continue
            variables[name] = value
        return variables

    def _warn(self, path: str, text: str) -> None:
        self._problems.warn(self._at(*path.split(".")).node, f"{path}: {text}")

    def _at(self, *keys: str) -> Value:
        """The value at a path, or its nearest ancestor in the file."""
        node: Node = self._tree
        for key in keys:
            if not isinstance(node, Table) or key not in node.values:
                break
            node = node.values[key]
        return Value(node, ".".join(keys), self._problems)


def labels_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Labels, workspace and description, in the form of labels."""
    labels = {fit: "" for label in config["labels"] if (fit := names.fit(label))}
    if config["workspace"]:
        labels["workspace"] = _one_line(config["workspace"])
    if config["description"]:
        labels["description"] = _one_line(config["description"])
    return labels


def _log_policies(config: Mapping[str, Any]) -> tuple[LogPolicy, ...]:
    """The policies with a pattern, one for each of the `actions` that some versions list."""
    return tuple(
        LogPolicy(pattern=item["pattern"], name=item.get("name"), action=action)
        for item in config["log_policies"]
        if item.get("pattern")
        for action in _log_actions(item)
    )


def _log_actions(policy: Mapping[str, Any]) -> list[LogAction | None]:
    words = policy.get("actions") or [policy.get("action")]
    return [LogAction(word) for word in words if isinstance(word, str)] or [None]


def _bare(path: str | None) -> str:
    """A path without trailing slash and redundant parts; "" for one that could not be read."""
    return re.sub("^//", "/", posixpath.normpath(path)) if path else ""


def _below_work(path: str) -> str:
    """A path below the work directory, relative to it; any other path unchanged."""
    inner = path.removeprefix(f"{WORK_DIRECTORY}/")
    return inner if inner and inner != path else path


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]+", " ", text)[:255]


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


MASK = "********"

_SECTIONS = frozenset(
    {"checkpoint_storage", "environment", "integrations", "data_layer", "tensorboard_storage", "security"}
)


def mask(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with stars in place of secrets; user data and hyperparameters stay unchanged."""
    return {key: _masked(value) if key in _SECTIONS else value for key, value in config.items()}


def _masked(value: Any) -> Any:
    if isinstance(value, Mapping):
        hidden = {key for key, item in value.items() if names_secret(key) and _is_value(item)}
        return {key: MASK if key in hidden else _masked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(item) for item in value]
    return _variable(value) if isinstance(value, str) else value


def _variable(text: str) -> str:
    """The variable `NAME=VALUE` without its value if its name suggests a secret."""
    name, equals, value = text.partition("=")
    if equals and name.isidentifier() and names_secret(name) and _is_value(value):
        return f"{name}={MASK}"
    return text


def _is_value(item: Any) -> bool:
    """Whether this may be a secret itself, not a reference to one."""
    return isinstance(item, str | int | float) and bool(item) and not is_reference(str(item))
