"""Decides which values may be secrets, by their names and by their form.

Readers of run files use it to warn, the server to mask answers and logs, the runner to mask its report.
`masking` hides known values; this module finds texts that look like a key.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from tarmac.node.files.gitrules import without_secrets

MASK = "***"
"""The replacement for a secret."""

CONTEXT_BYTES = 512
"""The bytes before a position in which a key that extends into it may begin."""

LEAST_INLINE = 8
"""The minimum length of a key in plain text in a run file that is hidden wherever it recurs."""

LEAST_KEY = 15
"""The minimum length of a text that may be, or assign, a key in a well-known form."""

Span = Tuple[int, int]


class PlainKey(NamedTuple):
    """A variable with a key in plain text."""

    name: str
    value: str


def names_secret(name: str) -> bool:
    """Whether a name (of a variable, a key of a file, an option) suggests a secret."""
    return re.search(_NAME, name.replace("-", "_")) is not None and re.search(_HARMLESS, name) is None


def looks_like_key(value: str) -> bool:
    """Whether a text is a key in a well-known form."""
    return re.search(_FORMAT, value) is not None


def is_reference(value: str) -> bool:
    """Whether a value is no secret, whatever its name: it is empty, or refers to the source of the value."""
    return re.fullmatch(_REFERENCE, value.strip()) is not None


def may_hold_secret(text: str) -> bool:
    """Whether `hidden` could find anything in a text: a fast check for frequently shown texts."""
    lowered = text.lower()
    return "@" in text or any(word in lowered for word in _WORDS) or _may_hold_format(text)


def keys_among(variables: Mapping[str, str]) -> List[PlainKey]:
    """The variables with a key in plain text, by name."""
    return [
        PlainKey(name, value)
        for name, value in sorted(variables.items())
        if looks_like_key(value) or (names_secret(name) and not is_reference(value))
    ]


def hidden(text: str, also: Iterable[str] = ()) -> str:
    """A text of a user (run file, command) with `***` for each value that may be a secret, and for `also`."""
    for value in also:
        text = text.replace(value, MASK)
    if not may_hold_secret(text):
        return text
    text = without_secrets(re.sub(_FORMAT, MASK, text))
    text = re.sub(_PAIR, _without_value, text)
    return re.sub(_ASSIGNED, _without_value, text)


def hidden_tree(value: Any, also: Sequence[str] = (), name: str = "") -> Any:
    """JSON with `***` for each text that may be a secret; `name` is the name of the value itself."""
    if isinstance(value, str):
        if names_secret(name) and not is_reference(value):
            return MASK
        return hidden(value, also)
    if isinstance(value, Mapping):
        return {key: hidden_tree(item, also, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [hidden_tree(item, also) for item in value]
    return value


def key_spans(text: str) -> List[Span]:
    """The ranges in a program's output that look like a key; unmerged and unordered."""
    found = [match.span() for match in re.finditer(_FORMAT, text)] if _may_hold_format(text) else []
    return found + [match.span("value") for match in _assigned(text)]


def open_end(text: str) -> int:
    """The position of an end of `text` that may become a key with later text."""
    tail_at = max(0, len(text) - CONTEXT_BYTES)
    found = re.compile(_OPEN).search(text, tail_at)
    return found.start() if found is not None else len(text)


def merged(spans: Iterable[Span]) -> List[Span]:
    """The same spans in order, overlapping ones merged."""
    result: List[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def _assigned(text: str) -> Iterator["re.Match[str]"]:
    """Matches of a secret's name with a possible value after it: long, of letters and digits."""
    lowered = text.lower()
    if not any(word in lowered for word in _WORDS):
        return
    for match in re.finditer(_ASSIGNED, text):
        value = match["value"]
        if (
            len(value) >= _LEAST_IN_LOGS
            and names_secret(_last(match["name"]))
            and re.fullmatch(_RANDOM, value)
        ):
            yield match


def _may_hold_format(text: str) -> bool:
    return any(sign in text for sign in _SIGNS)


def _without_value(found: "re.Match[str]") -> str:
    value = found["value"]
    if not names_secret(_last(found["name"])) or is_reference(value) or value == MASK:
        return found[0]
    start = found.start("value") - found.start()
    return found[0][:start] + MASK + found[0][start + len(value) :]


def _last(name: str) -> str:
    """The last part of a dotted name: `wandb.api_key` gives `api_key`."""
    return name.rpartition(".")[2]


# Texts, which `re` compiles on first use: most runners never use them.
_NAME = (
    r"(?ai)(?:^auth|(?:^|_|(?<=[a-z0-9]))(?:password|passwd|passphrase|secret|connection_?string|credentials?"
    r"|(?:api|access|secret|private|account|encryption|signing|wandb|comet|openai|hf)_?key|token))_?\d*$"
)
_HARMLESS = (
    r"(?i)(?:^|_)(?:pad|eos|bos|unk|sep|cls|mask|special|end|start|stop|max|min|num|n|per|new|next|prev|image|text"
    r"|time|bytes?|sec|each|first|last|input|output|target)_?token$"
)
_REFERENCE = (
    r"(?is)(?:\*+|\(hidden\)|<[^<>]*>|\$\w+|\$\{[^{}]*\}|\$\{\{[^{}]*\}\}|\$\(.*\)"
    r"|null|none|~|true|false|[a-z_.]+[(\[].*|)"
)
_SIGNS = (
    *("hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "AKIA", "ASIA"),
    *("AIza", "dapi", "npm_", "pypi-", "dckr_pat_", "wandb_v1_", "eyJ", "PRIVATE KEY"),
)
"""Every text that `_FORMAT` matches contains one of these."""
_FORMAT = (
    r"(?a)(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])|AIza[A-Za-z0-9_-]{30,}|dapi[0-9a-f]{32}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[A-Za-z0-9_-]{40,}|dckr_pat_[A-Za-z0-9_-]{20,}|wandb_v1_[A-Za-z0-9_]{20,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=,:\s\\-]{0,20000}?-----END [A-Z ]{0,30}"
    r"PRIVATE KEY-----"
)
_OPEN = (
    r"(?ai)(?<![A-Za-z0-9])(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox|A(?:KIA|SIA)|AIza|dapi|npm_|pypi-|dckr_pat_"
    r"|wandb_v1_|eyJ)[A-Za-z0-9_.-]{0,400}\Z"
    r"|(?:key|token|secret|passw(?:or)?d|passphrase|credentials?|string)[\"']?\s{0,3}[=:]\s{0,3}[\"']?[^\s\"',;]{0,400}\Z"
)
_VALUE = (
    r"(?P<quote>[\"'])?(?P<value>\$\{\{[^{}\n]{0,200}\}\}|\$\{[^{}\n]{0,200}\}|<[^<>\n]{0,200}>"
    r"|(?(quote)[^\"'\n]+|[^\s\"',;{}]+))"
)
_ASSIGNED = (
    r"(?a)(?<![\w.-])(?P<dash>--?)?(?P<name>[A-Za-z_][\w.-]{0,100})[\"']?"
    r"(?(dash)[ \t]{0,8}[=: \t][ \t]{0,8}|[ \t]{0,8}[=:][ \t]{0,8})" + _VALUE
)
_PAIR = (
    r"(?a)(?:key|envKey|name)[\"']?:[ \t]{0,8}[\"']?(?P<name>[A-Za-z_]\w{0,100})[\"']?,?\s{0,40}"
    r"[\"']?(?:value|envValue)[\"']?:[ \t]{0,8}" + _VALUE
)
_WORDS = ("key", "token", "secret", "passw", "passphrase", "credential", "string", "auth")
_LEAST_IN_LOGS = 16
_RANDOM = r"(?a)(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+/=.~-]+"
