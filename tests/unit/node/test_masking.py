"""Known secrets are found in what programs write: whole, torn, repeated, and in other codes."""

from __future__ import annotations

import base64
import json
import shlex
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.node.files.logroom import last_lines
from tarmac.node.files.masking import NO_SECRETS, Mask, split_at

SECRET = "s3cr3t/Value+with=signs"
LOWER = quote(SECRET, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d")
KEY = "-----BEGIN KEY-----\nAAAAB3NzaC1yc2EAAAADAQAB\nshort\nBBBBB3NzaC1yc2EAAAADAQAB\n-----END KEY-----\n"


@pytest.mark.parametrize(
    "printed",
    [
        SECRET,
        f"key={SECRET};",
        SECRET + SECRET,
        json.dumps({"x": SECRET}),
        f"https://host/?k={quote(SECRET, safe='')}&b=1",
        f"https://host/?k={LOWER}",
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(f"user:{SECRET}".encode()).decode(),
        base64.b64encode(f"me:{SECRET}:more".encode()).decode(),
        SECRET.encode().hex(),
    ],
)
def test_a_secret_is_hidden_in_every_usual_form(printed: str) -> None:
    shown = Mask([SECRET]).text(f"before {printed} after")
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert "***" in shown
    for left in (SECRET, quote(SECRET, safe=""), SECRET.encode().hex(), "cr3t", "signs"):
        assert left not in shown
    for shift in range(3):
        inner = base64.b64encode(b"x" * shift + SECRET.encode()).decode()[4:-5]
        assert inner not in shown


HOSTILE = 'it\'s "odd" gE7xQ2mark \\ \tnön-€ \x1b[2J $(id)'


@pytest.mark.parametrize(
    "printed",
    [
        repr(HOSTILE),
        repr({"key": HOSTILE}),
        repr(HOSTILE.encode()),
        f"Invalid header value {HOSTILE.encode()!r}",
        shlex.quote(HOSTILE),
        "'" + HOSTILE.replace("'", "'\\''") + "'",
        json.dumps(HOSTILE),
        quote(HOSTILE),
    ],
)
def test_a_secret_is_hidden_as_python_and_shells_quote_it(printed: str) -> None:
    """Exceptions and `print(os.environ)` show a value by its `repr`, `set -x` in quotes of the shell."""
    shown = Mask([HOSTILE]).text(f"before {printed} after")
    assert "gE7xQ2mark" not in shown
    assert (shown[:7], shown[-6:]) == ("before ", " after")


def test_each_long_line_of_a_secret_and_each_named_value_is_hidden_by_itself() -> None:
    mask = Mask(
        [KEY, "[default]\nregion = eu\naws_secret_access_key = wJalrXUtnFEMI\n", '{"token": "abcdefgh1"}']
    )
    assert mask.text("a BBBBB3NzaC1yc2EAAAADAQAB b short") == "a *** b short"
    assert mask.text("wJalrXUtnFEMI eu") == "*** eu"
    assert mask.text("(abcdefgh1)") == "(***)"


def test_a_beginning_of_a_secret_at_the_end_is_held_back_and_hidden_when_nothing_follows() -> None:
    mask = Mask([SECRET])
    shown, cut = split_at(b"x s3cr3t/Val", mask, 0, final=False)
    assert (shown, cut) == (b"x ", 2)
    assert split_at(b"x s3cr3t/Val", mask, 0, final=True)[0] == b"x ***"
    assert split_at(b"x s3c", mask, 0, final=True)[0] == b"x s3c"


@given(
    st.lists(
        st.sampled_from(["s3cret-one", "s3cret-s3cret-two", "s3", "cret", "-", "aaaa", "aaaaa", "x\n"]),
        max_size=12,
    ),
    st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
def test_however_a_log_is_torn_the_same_is_shown(written: list[str], steps: list[int]) -> None:
    """Read in blocks of any length, from the beginning or from a place within it."""
    data, mask = "".join(written).encode(), Mask(["s3cret-one", "s3cret-s3cret-two", "aaaa"])
    whole = split_at(data, mask, 0, final=True)[0]
    shown, emitted, read, step = b"", 0, 0, 0
    while read < len(data):
        read = min(len(data), read + steps[step % len(steps)])
        step += 1
        begin = max(0, emitted - mask.context_bytes)
        part, cut = split_at(data[begin:read], mask, emitted - begin, final=False)
        shown, emitted = shown + part, begin + cut
    begin = max(0, emitted - mask.context_bytes)
    shown += split_at(data[begin:], mask, emitted - begin, final=True)[0]
    assert shown == whole
    for secret in (b"s3cret-one", b"s3cret-s3cret-two", b"aaaa"):
        assert secret not in shown
    for place in range(len(data)):
        assert b"cret-one" not in split_at(data, mask, place, final=True)[0] or b"s3cret-one" not in data


def test_last_lines_hold_no_part_of_a_secret(tmp_path: Path) -> None:
    """A line is cut after it was masked: its end may be within a secret."""
    log = tmp_path / "log"
    log.write_text("x" * 490 + SECRET + "\n" + SECRET + "\n")
    assert last_lines(str(log), Mask([SECRET])) == ["x" * 490 + "***", "***"]


def test_the_shortest_key_is_hidden_in_a_text_of_its_own() -> None:
    event = {"kind": "ended", "code": 1, "tail": ["xoxb-0123456789"], "cause": None}
    assert NO_SECRETS.tree(event) == {**event, "tail": ["***"]}
