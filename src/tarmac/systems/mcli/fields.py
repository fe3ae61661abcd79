"""The fields of an MCLI run file, mapping by mapping: those of every public version, old names included.

`read_known` converts a mapping to current names: null counts as unset, `gpuNum` and `run_name` get their
current names. An unknown field causes a warning, as in MCLI, unless it is probably a typing error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tarmac.dialects.kinds import line
from tarmac.dialects.located import Node, Scalar, Table, quote
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.errors import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The words of one mapping. `renamed`: old or other words for a known one; `old` ones cause a warning.

    `ignored`: known but without effect here, with the consequence; `refused`: with the reason.
    """

    known: frozenset[str]
    renamed: Mapping[str, str] = field(default_factory=dict)
    old: frozenset[str] = frozenset()
    ignored: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    synonyms: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> Fields:
        """The fields after renaming."""
        return Fields(known=self.known)


WORKSPACE = "/workspace"
"""The working directory of the platform's images, and of the run if a file names it."""

_FREE = frozenset({"name", "command", "parameters", "metadata", "env_variables"})
"""Fields whose values may look like placeholders."""

_PLACEHOLDER = re.compile(r"<[^<>]*>|TODO.*|YOUR_.*|REPLACE_.*")
_SHOUTED = re.compile(r"[A-Z]++[ _-][A-Z _-]*+")
_DEPLOYMENT = (
    "this is the file of an inference deployment, not of a run",
    "tarmac runs training: a run has name, image, command and compute",
)

COMPUTE = Vocabulary(
    known=frozenset({"cluster", "instance", "nodes", "node_names", "gpu_type", "gpus", "cpus"}),
    synonyms=words_for(gpus="gpu gpu_num num_gpus gpu_count", nodes="num_nodes"),
)

SCHEDULING = Vocabulary(
    known=frozenset(
        {"priority", "preemptible", "max_retries", "retry_on_system_failure", "max_duration"}
        | {"watchdog_enabled", "resumable"}
    ),
    ignored={"priority_int": "the word under 'priority' says it"},
    synonyms=words_for(max_retries="retries", watchdog_enabled="watchdog", max_duration="timeout"),
)

RUN = Vocabulary(
    known=frozenset(
        {"name", "image", "command", "entrypoint", "compute", "scheduling", "integrations"}
        | {"env_variables", "parameters", "metadata", "experiment_tracker", "dependent_deployment"}
        | {"cluster", "gpu_type", "gpu_num", "cpus"}
    ),
    renamed={"run_name": "name", "platform": "cluster"},
    old=frozenset({"run_name", "platform"}),
    ignored={
        "partitions": "tarmac chooses among the nodes of the cluster itself; --pool names one of its pools",
        "optimization_level": "nothing is optimised for you; algorithms are part of your own code",
        "parent_name": "the run does not end with another one",
    },
    refused={
        "model": _DEPLOYMENT,
        "default_model": _DEPLOYMENT,
        "replicas": _DEPLOYMENT,
        "rate_limits": _DEPLOYMENT,
    },
    synonyms={name: f"compute.{name}" for name in COMPUTE.known}
    | {name: f"scheduling.{name}" for name in SCHEDULING.known}
    | words_for(
        env_variables="env envs environment environment_variables",
        command="cmd script run",
        image="docker_image container container_image",
        parameters="params config",
    ),
)

TRACKER = Vocabulary(known=frozenset({"mlflow", "wandb"}))
TRACKER_MLFLOW = Vocabulary(
    known=frozenset({"tracking_uri", "experiment_path"}),
    renamed={"experiment_name": "experiment_path"},
    ignored={"model_registry_path": "your own code registers the model; MLFLOW_REGISTRY_URI is not set"},
)
TRACKER_WANDB = Vocabulary(known=frozenset({"project", "entity"}))

GIT_REPO = Vocabulary(
    known=frozenset({"git_repo", "git_branch", "git_commit", "path", "ssh_clone", "pip_install", "host"})
    | {"git_clone_recursive"},
    synonyms=words_for(
        git_repo="repo", git_branch="branch", git_commit="commit", git_clone_recursive="recursive"
    ),
)
PIP_PACKAGES = Vocabulary(known=frozenset({"packages", "upgrade"}), synonyms={"requirements": "packages"})
APT_PACKAGES = Vocabulary(known=frozenset({"packages"}))
WANDB = Vocabulary(known=frozenset({"project", "entity", "group", "job_type", "tags"}))
MLFLOW = Vocabulary(
    known=frozenset({"experiment_name", "tracking_uri"}), renamed={"experiment_path": "experiment_name"}
)
COMET = Vocabulary(known=frozenset({"project_name", "workspace"}), renamed={"project": "project_name"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A key whose value is not used, with the reason."""

    key: Scalar
    reason: str


class KnownSection(Section):
    """A mapping in current words, with its unused keys by name, and old words with their current ones."""

    def __init__(self, table: Table, vocabulary: Vocabulary, value: Value) -> None:
        super().__init__(table, vocabulary.fields, problems=value.problems, path=value.path)
        self.left_out: dict[str, LeftOut] = {}
        self.old: dict[str, str] = {}

    def missing(self, name: str, hint: str) -> None:
        """Report a missing field; if it has an unusable value, report that at its place."""
        if name not in self.left_out:
            super().missing(name, hint)
            return
        left = self.left_out[name]
        Value(left.key, self.path, self.problems).refuse(f"'{name}' is missing: {left.reason}", hint)


def known_as(key: str, vocabulary: Vocabulary) -> str:
    """The current word for a key, in any of its spellings."""
    word = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[1].lower()}", key)
    return vocabulary.renamed.get(word, word)


def read_known(value: Value, vocabulary: Vocabulary, *, description: str) -> KnownSection | None:
    """The mapping in current words; None, with a problem reported, if it is no mapping."""
    if not isinstance(value.node, Table):
        value.expected(description)
        return None
    entries: dict[str, tuple[Scalar, Node]] = {}
    suggested, old = set[str](), dict[str, str]()
    left_out: dict[str, LeftOut] = {}
    present = {known_as(key.text, vocabulary) for key, _ in value.node.entries}
    for key, item in value.node.entries:
        name = known_as(key.text, vocabulary)
        if isinstance(item, Scalar) and item.empty:
            left_out[name] = LeftOut(key=key, reason=f"nothing follows {key.text!r}")
        elif name in vocabulary.known and name not in _FREE and _is_placeholder(item):
            left_out[name] = LeftOut(key=key, reason=f"{_placeholder(item)} is a placeholder")
            value.warn(f"{key.text!r} holds a placeholder, and is taken as not given", key)
        elif name not in vocabulary.known:
            suggested |= _unknown(value, key, vocabulary, present)
        elif name in entries and key.text != name:
            value.warn(f"{key.text!r} is passed over: {name!r} says it as well", key)
        else:
            if key.text in vocabulary.old:
                old[key.text] = name
            entries[name] = (Scalar(text=name, line=key.line, column=key.column), item)
    table = Table(entries=tuple(entries.values()), line=value.node.line, column=value.node.column)
    section = KnownSection(table, vocabulary, value)
    section.suggestions |= suggested
    section.old |= old
    section.left_out |= {name: left for name, left in left_out.items() if name not in entries}
    return section


def _is_placeholder(node: Node) -> bool:
    """Whether the value is still a template's placeholder."""
    if isinstance(node, Table) and len(node.entries) == 1:
        key, item = node.entries[0]
        return isinstance(item, Scalar) and item.empty and bool(_SHOUTED.fullmatch(key.text))
    return isinstance(node, Scalar) and bool(_PLACEHOLDER.fullmatch(node.text))


def _placeholder(node: Node) -> str:
    """A placeholder as messages quote it."""
    return f"{{{node.entries[0][0].text}}}" if isinstance(node, Table) else quote(node)


def _unknown(value: Value, key: Scalar, vocabulary: Vocabulary, present: set[str]) -> set[str]:
    """Warn of an unknown key or refuse it; return the field that was probably meant if it is refused.

    A key that is near a field of the same mapping is no typing error, but the user's own key.
    """
    at = Value(key, f"{value.path}.{key.text}" if value.path else key.text, value.problems)
    word = known_as(key.text, vocabulary)
    if word in vocabulary.refused:
        at.refuse(*vocabulary.refused[word])
    elif word in vocabulary.ignored:
        value.warn(f"{key.text!r} has no effect: {vocabulary.ignored[word]}", key)
    elif (near := _intended(word, vocabulary, present)) is not None:
        note = Value(key, value.path, value.problems)
        note.refuse(f"unknown field {quote(key)}", f"did you mean '{near}'?")
        return {near}
    else:
        value.warn(f"unknown field {quote(key)} has no effect, as in MCLI", key)
    return set()


def _intended(word: str, vocabulary: Vocabulary, present: set[str]) -> str | None:
    if word.lower() in vocabulary.synonyms:
        return vocabulary.synonyms[word.lower()]
    if word.startswith(("_", "x-")):  # holds YAML anchors
        return None
    near = nearest(word, vocabulary.known)
    return None if near in present else near


def read_word(value: Value | None, description: str = "a text") -> str | None:
    """A text of one line, or None if it is missing or wrong."""
    if value is None:
        return None
    if not isinstance(value.node, Scalar):
        value.expected(description)
        return None
    return value.read(line(description), None)


def read_words(value: Value, description: str) -> tuple[str, ...]:
    """A list of texts, or one alone."""
    if isinstance(value.node, Scalar):
        return value.read_list(line(description), description, or_one=True)
    return value.read_list(line("a text"), description)
