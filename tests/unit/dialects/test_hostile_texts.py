"""Texts made to hold a reader up: what it does with them grows with their length, never with its square."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.systems.isc.commands import joined

DEADLINE_S = 90
"""Each of these took minutes to years, and takes milliseconds."""

HOSTILE = {
    "blanks in isc": "from tarmac.systems.isc.commands import joined as f; s = 'a' + ' ' * N + 'b'",
    "backslashes in an isc command": r"from tarmac.systems.isc.commands import joined as f; s = '\\ ' * N",
    "empty lines": r"from tarmac.systems.registry import _COMMENTS as c; s = '\n' * N; f = c.findall",
    "capitals": "from tarmac.systems.mcli.fields import _SHOUTED as c; s = 'A_' * N + '1'; f = c.fullmatch",
    "an account": "from tarmac.systems.mcli.integrations import _ACCOUNT as c; s = 'a' * N; f = c.search",
    "a slot type": "from tarmac.dialects.quantities import _slots_hint as f; s = 'a' + '1' * N + '!'",
}


@pytest.mark.parametrize("case", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_long_to_be_read(case: str) -> None:
    program = f"N = 300_000\n{case}\nf(s)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE_S)


@given(st.text(alphabet="a \t\\\n", max_size=14))
def test_an_isc_command_is_joined_as_its_rule_says(text: str) -> None:
    """The rule as one would write it down, for texts short enough for it."""
    continued = re.sub(r"\\\n", "", text)
    plain = re.sub(r"[ \t]*\\?[ \t]*\n", " ", re.sub(r"\\[ \t]+\n", "\n", continued))
    assert joined(text) == plain.strip()
