"""Allowed names of runs, roles, clusters, hosts, labels and environment variables.

Used by the readers. Names become file names, log names, native names of other systems and parts of URLs: the
rules keep all of those safe without quoting.
"""

import posixpath
import re

from tarmac.dialects.kinds import matching

LONGEST_NAME = 63
NAME = matching(
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?",
    "a name of 1 to 63 letters, digits, '.', '_' and '-', first and last a letter or digit,",
)
ROLE_NAME = matching(
    r"[A-Za-z0-9]([A-Za-z0-9_-]{0,30}[A-Za-z0-9])?",
    "a role name of 1 to 32 letters, digits, '_' and '-', first and last a letter or digit,",
)
HOSTNAME = matching(
    r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?", "a host name of letters, digits, '.', '_' and '-'"
)
LABEL_NAME = matching(
    r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?",
    "a label name of 1 to 63 letters, digits, '.', '_', '-' and '/', first and last a letter or digit,",
)
VARIABLE_NAME = matching(
    r"[A-Za-z_][A-Za-z0-9_]{0,254}", "the name of a variable, of letters, digits and '_', no digit first,"
)
LABEL_VALUE = matching(r"[^\x00-\x1f\x7f]{0,255}", "one line of at most 255 characters")

CONTRACT_VARIABLES = frozenset(
    {"CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "N_PROC"}
    | {"CHECKPOINT_ARTIFACT_PATH", "CRUD_ARTIFACT_PATH", "LOSSY_ARTIFACT_PATH", "LOG_ARTIFACT_PATH"}
    | {"OUTPUT_PATH", "STRONG_COMPUTE_MODE", "STRONG_CYCLE_COUNT", "STRONG_CYCLE_TIME_MS"}
)
"""Variables that every worker gets, beside TARMAC_...: a user's own value would be lost."""


def reserved(variable: str) -> bool:
    """Whether tarmac sets this variable itself."""
    if variable in ("TARMAC_URL", "TARMAC_TOKEN"):  # for code that calls a server
        return False
    return variable.startswith("TARMAC_") or variable in CONTRACT_VARIABLES


def name_from_file(filename: str) -> str:
    """The default name of a run: that of its file, made valid."""
    stem = posixpath.splitext(posixpath.basename(filename))[0]
    return fit(stem) or "run"


def fit(text: str) -> str:
    """The text as a run name: invalid characters become dashes; "" if no valid character remains."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text, flags=re.ASCII).strip("-._")
    return name[:LONGEST_NAME].strip("-._")
