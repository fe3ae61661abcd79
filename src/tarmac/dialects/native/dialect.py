"""The native dialect: tarmac's own YAML. Listed in `systems.registry`."""

from tarmac.dialects.dialect import CERTAIN, POSSIBLE, Detection, Dialect, Report, no_conventions, not_ours
from tarmac.dialects.located import Node, Table, quote
from tarmac.dialects.native.fields import RUN
from tarmac.dialects.native.reader import NAME, read_native
from tarmac.dialects.problems import Problems
from tarmac.dialects.schema import fields_of
from tarmac.dialects.yaml_tree import compose
from tarmac.model.errors import nearest


def _detect(filename: str, text: str) -> Detection:
    """Certain for a mapping of known fields with something to execute; possible for any known field.

    A text that is not YAML is detected by its file name, so that the reader can locate its error.
    """
    problems = Problems(filename)
    tree = compose(text, problems)
    if tree is not None:
        return _judge(tree)
    return POSSIBLE if filename.endswith((".yaml", ".yml")) else not_ours(str(problems.first))


def _judge(tree: Node) -> Detection:
    if not isinstance(tree, Table):
        return not_ours(f"fields such as 'command: ...' are expected, not {quote(tree)}")
    keys = {key.text for key, _ in tree.entries}
    ours = _FIELDS.known
    if keys <= ours and keys & _ACTS:
        return CERTAIN
    like_ours = [key for key in keys if _like(key, ours)]
    if 2 * len(like_ours) >= len(keys) > 0 or any(_like(key, _ACTS) for key in like_ours):
        return POSSIBLE
    found = ", ".join(repr(key)[:40] for key in sorted(keys)[:5]) or "nothing"
    few = "none" if not like_ours else "too few"
    verb = "is" if not like_ours else "are"
    return not_ours(f"{few} of its fields {verb} known (found: {found})")


def _like(key: str, ours: frozenset[str]) -> bool:
    """Whether a key is one of these, another system's word for one, or nearly one."""
    return key in ours or _FIELDS.synonyms.get(key) in ours or nearest(key, ours, cutoff=_CLOSE) is not None


_FIELDS = fields_of(RUN)
_CLOSE = 0.75
_ACTS = frozenset({"command", "roles", "processes"})
"""The fields with something to execute."""


def _status(report: Report) -> str:
    """tarmac's own word."""
    return (report.outcome or report.state).value


NATIVE = Dialect(
    name=NAME, detect=_detect, read=read_native, apply_conventions=no_conventions, status=_status
)
