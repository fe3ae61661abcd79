"""Names of the ISC as names of tarmac: any text is allowed there. Used by the reader and the variables."""

from __future__ import annotations

import re

LONGEST = 63


def fit(text: str, otherwise: str) -> str:
    """The text as a name: what does not fit becomes a dash; `otherwise` where nothing is left."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text, flags=re.ASCII).strip("-._")
    return name[:LONGEST].strip("-._") or otherwise
