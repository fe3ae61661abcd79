"""Values of secrets that libraries, shells and parsers stumble over, each with the same mark in it."""

from __future__ import annotations

import base64

MARK = "gE7xQ2mark"

VALUES = {
    "plain": f"{MARK}-plain",
    "blanks": f"  two words {MARK} and more ",
    "quotes": f"it's \"odd\" `{MARK}` 'x",
    "lines": f"{MARK} of one\n  {MARK} of two\r\nshort\n{MARK} of three\n",
    "percent": f"50%{MARK}%zz%20%s%(x)s",
    "at": f"ada@{MARK}@127.0.0.1/x?y#z",
    "other letters": f"nön-€-数{MARK}é",
    "control characters": f"\x1b]0;{MARK}\x07\t\x7f\x01",
    "shell": f"$(echo {MARK}) ; ${{x}} -oProxyCommand={MARK} \\",
    "half JSON": f'{{"auths": {{"127.0.0.1": {MARK}',
    "JSON": f'{{"auths": {{"127.0.0.1": {{"auth": "{MARK}=="}}, "x": 7}}}}',
    "key": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{MARK}{'A' * 40}\n-----END OPENSSH PRIVATE KEY-----\n",
    "ini": f"[default]\naws_secret_access_key = {MARK}\naws_session_token={MARK} x\n",
    "a header": f"{MARK}\r\nX-Injected: {MARK}",
}


def gives_away(text: str) -> bool:
    """Whether a text holds the mark, as it is, in base64 or in hexadecimal."""
    coded = (base64.b64encode(b"x" * shift + MARK.encode()).decode()[4:-4] for shift in range(3))
    return any(each in text for each in (MARK, MARK.encode().hex(), *coded))
