"""Well-known files that are not run files, recognised by their content. Called where a dialect is chosen.

Only texts that no dialect is certain of are checked, so a wrong guess here costs a wrong hint, never a run.
"""

import re
from collections.abc import Collection, Sequence

from tarmac.dialects.dialect import Dialect, FileKind
from tarmac.dialects.located import Items, Problems, Scalar, Table
from tarmac.dialects.yaml_tree import compose
from tarmac.model.errors import Problem

LOOKED_AT = 1 << 16
MOST_DOCUMENTS = 4


def unsupported_problem(text: str, filename: str, dialects: Sequence[Dialect]) -> Problem | None:
    """The problem with a file of another known kind; None if the kind is unknown."""
    kinds = (*_KINDS, *(kind for dialect in dialects for kind in dialect.unread))
    found = _by_lines(text) or _by_keys(text, filename, kinds)
    if found is None:
        return None
    what, hint = found
    return Problem(file=filename, message=f"this is {what}, which tarmac does not read", hint=hint)


def _by_lines(text: str) -> tuple[str, str] | None:
    head = text[:LOOKED_AT]
    for pattern, what, hint in _LINES:
        if pattern.search(head):
            kind = _KIND_LINE.search(head) if what == _KUBERNETES else None
            return f"a {kind[1]} of Kubernetes" if kind else what, hint
    return None


def _by_keys(text: str, filename: str, kinds: Sequence[FileKind]) -> tuple[str, str] | None:
    """The kind that the keys of the file show; of several documents, the first with a known kind."""
    documents = _NEXT_DOCUMENT.split(text, maxsplit=MOST_DOCUMENTS)[:MOST_DOCUMENTS]
    trees = (compose(document, Problems(filename), lenient=True) for document in documents)
    found = (_of_table(tree, kinds) for tree in trees if isinstance(tree, Table))
    return next((kind for kind in found if kind is not None), None)


def _of_table(tree: Table, kinds: Sequence[FileKind]) -> tuple[str, str] | None:
    keys = tree.values.keys()
    named = tree.values.get("type")
    kind = named.text if isinstance(named, Scalar) else ""
    if _is_hydra(tree):
        return "a configuration of Hydra", _OF_SCRIPT
    if keys & _DSTACK.get(kind, frozenset()):
        return f"a {kind} of dstack", _NATIVE
    for known in kinds:
        if keys >= set(known.keys.split()) and (not known.further or keys & set(known.further.split())):
            return known.what, known.hint
    if len({key.lower() for key in keys} & _PARAMETER_NAMES) >= _FEW and not _launches(keys):
        return "a file of parameters for a training script", _OF_SCRIPT
    return None


def _launches(keys: Collection[str]) -> bool:
    """Whether a key starts something: such a file does not consist of parameters alone."""
    return any(key in _LAUNCHING or key.endswith("_project_id") for key in keys)


def _is_hydra(tree: Table) -> bool:
    """Whether a mapping composes others, configures Hydra, or names a class to instantiate."""
    for key, node in tree.entries:
        if key.text in ("hydra", "_target_") or (key.text == "defaults" and isinstance(node, Items)):
            return True
        if isinstance(node, Table) and any(inner.text == "_target_" for inner, _ in node.entries):
            return True
    return False


def _line(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE | re.ASCII)


_NATIVE = "write it as a run file, with 'command', 'nodes' and 'resources' (docs/using/run-file.md)"
_SKY = "in a run file 'run' is 'command', 'num_nodes' 'nodes', 'envs' 'env', 'accelerators' 'resources'"
_BATCH = "a run file starts it, with the nodes and slots it asks for: 'command: bash SCRIPT'"
_SHELL = "a run file starts it: 'command: bash SCRIPT'"
_PYTHON = "a run file starts it: 'command: python SCRIPT'"
_TORCHX = "it holds defaults of TorchX's own command; a run file has 'command', 'nodes' and 'slots' itself"
_ELSEWHERE = "give the run file that starts the training"
_OF_SCRIPT = (
    "it configures a script: a run file starts that, as 'command: python train.py', with the slots it needs "
    "(docs/using/run-file.md)"
)
_PACKAGE = "the description of a package"
_KUBERNETES = "an object of Kubernetes"
_KIND_LINE = _line(r"^kind: *([A-Z]\w*)\s*$")

_LINES = (
    (_line(r"^#SBATCH\s"), "a batch script of Slurm", _BATCH),
    (_line(r"^#PBS\s"), "a batch script of PBS", _BATCH),
    (_line(r"^#BSUB\s"), "a batch script of LSF", _BATCH),
    (_line(r"^#\$ -[a-zA-Z]"), "a batch script of Grid Engine", _BATCH),
    (_line(r"\A#! ?/\S*(env )?\s*(ba|z|k|da)?sh\b"), "a shell script", _SHELL),
    (_line(r"\A#! ?/\S*(env )?\s*python"), "a Python program", _PYTHON),
    (_line(r"^(import \w+|from \w[\w.]* import )[\w., ()*]*$"), "a Python program", _PYTHON),
    (_line(r"^\[(project|build-system|tool\.[\w-]+|package)\]\s*$"), _PACKAGE, _ELSEWHERE),
    (_line(r"\A(#.*\n|\s*\n){0,99}(ARG .*\n){0,99}FROM \S+"), "a Dockerfile", _ELSEWHERE),
    (_line(r"^apiVersion: *[\w./-]+\s*$"), _KUBERNETES, _NATIVE),
    (
        _line(r"^\[(cli:\w+|torchx:\w+|component:\S+|local_cwd|local_docker)\]\s*$"),
        "a .torchxconfig",
        _TORCHX,
    ),
)
"""Kinds that single lines identify, whatever the rest of the file."""

_LAUNCHES = "command commands run roles processes slots entrypoint compute jobs experiment_name image"
_LAUNCHING = frozenset(_LAUNCHES.split())
_FEW = 2
_PARAMETERS = """
model models optimizer optim scheduler lr_scheduler loss criterion trainer training train data dataset
datasets dataloader datamodule transforms augmentation lr learning_rate batch_size train_batch_size epochs
num_epochs max_epochs seed num_workers weight_decay warmup_steps callbacks logger checkpoint tokenizer
network architecture backbone metrics evaluation eval val test hparams
"""
_PARAMETER_NAMES = frozenset(_PARAMETERS.split())

_NEXT_DOCUMENT = re.compile(r"^---.*$\n?", re.MULTILINE)
_DSTACK = {
    "task": frozenset({"commands", "image", "python"}),
    "service": frozenset({"port", "commands", "image"}),
    "dev-environment": frozenset({"type"}),
    "fleet": frozenset({"nodes", "ssh_config"}),
    "volume": frozenset({"backend"}),
    "gateway": frozenset({"backend"}),
}
"""Types of dstack, each with keys of which it has at least one."""


_KINDS = (
    FileKind(_KUBERNETES, "apiVersion kind", hint=_NATIVE),
    FileKind("a file of Docker Compose", "services"),
    FileKind("a workflow of GitHub", "on jobs"),
    FileKind("a pipeline of GitLab", "stages"),
    FileKind("a task of SkyPilot", "run", "resources num_nodes file_mounts workdir setup envs service", _SKY),
    FileKind("a job of Azure ML", "$schema", "command jobs compute", _NATIVE),
    FileKind("a cluster of Ray", "cluster_name provider"),
    FileKind("a job of Vertex AI", "workerPoolSpecs", hint=_NATIVE),
    FileKind("a job of SageMaker", "TrainingJobName", hint=_NATIVE),
    FileKind("a sweep of Weights & Biases", "method parameters", "program metric command"),
    FileKind("a configuration of accelerate", "compute_environment distributed_type"),
    FileKind("a configuration of pre-commit", "repos"),
    FileKind("an environment of conda", "dependencies", "channels prefix"),
    FileKind(_PACKAGE, "name version", "scripts dependencies devDependencies main"),
    FileKind("a request to MosaicML's fine-tuning service", "model train_data_path", hint=_NATIVE),
)
