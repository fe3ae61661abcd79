"""What of a context directory is left behind, and how much of it may come along. Part of a spec's code."""

from __future__ import annotations

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
