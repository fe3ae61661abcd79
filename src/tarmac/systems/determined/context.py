"""The rules for context directories: excluded files, and the maximum size of the rest.

Called by `reader`, and by `tarmac experiment create`, which checks before it sends.
"""

from tarmac.model.spec import LocalDirectory

IGNORE_FILE = ".detignore"

LIMIT_BYTES = 95 * 1024 * 1024
"""95 MB, as in Determined's documentation."""

BUILT_IN_IGNORES = (
    *("__pycache__/", "*.py[co]", "*$py.class"),
    *("terraform", "terraform_data", "terraform.tfstate*", "terraform.tfvars*", ".terraform*"),
    *(".git/", ".vscode/", ".idea/", ".mypy_cache/", "/shared_fs"),
    f"/{IGNORE_FILE}",
)
"""Always excluded from a context, whatever `.detignore` contains."""


def context_of(directory: str) -> LocalDirectory:
    """The code in a context directory."""
    return LocalDirectory(
        path=directory, ignore_file=IGNORE_FILE, exclude=BUILT_IN_IGNORES, limit_bytes=LIMIT_BYTES
    )
