"""Which files of a context directory are left out, and how large the rest may be.

Called by `reader`, and by `tarmac experiment create`, which checks before it sends.
"""

from __future__ import annotations

from tarmac.model.spec import LocalDirectory

IGNORE_FILE = ".detignore"

LIMIT_BYTES = 95 * 1024 * 1024
"""The 95 MB of Determined's documents."""

BUILT_IN_IGNORES = (
    *("__pycache__/", "*.py[co]", "*$py.class"),
    *("terraform", "terraform_data", "terraform.tfstate*", "terraform.tfvars*", ".terraform*"),
    *(".git/", ".vscode/", ".idea/", ".mypy_cache/", "/shared_fs"),
    f"/{IGNORE_FILE}",
)
"""Never part of a context, whatever `.detignore` says."""


def context_of(directory: str) -> LocalDirectory:
    """The code that a context directory is."""
    return LocalDirectory(
        path=directory, ignore_file=IGNORE_FILE, exclude=BUILT_IN_IGNORES, limit_bytes=LIMIT_BYTES
    )
