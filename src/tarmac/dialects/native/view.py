"""Writes a spec as a native run file, for `tarmac convert`. The inverse of `reader`.

Only differences from the defaults are written, so that a short file stays short. Reading the text returns the
same spec, without the text itself and its original dialect.
"""

from __future__ import annotations

import posixpath

from tarmac.dialects.kinds import plain
from tarmac.dialects.native.fields import RUN
from tarmac.dialects.native.reader import with_paths
from tarmac.dialects.native.roles import written_roles
from tarmac.dialects.native.search import written_parameters
from tarmac.dialects.plain import to_yaml
from tarmac.dialects.schema import write_record
from tarmac.model.spec import RunSpec


def write(spec: RunSpec, *, directory: str | None = None) -> str:
    """The native run file for a spec; paths below `directory` are written relative to it."""
    if directory is not None:
        spec = with_paths(spec, lambda path: _relative(path, directory))
    fields = write_record(spec, RUN) | written_roles(spec.roles)
    if spec.search is not None:
        fields["parameters"] = plain(written_parameters(spec.search))
    elif spec.parameters is not None:  # without entries, the run still gets a file of them
        fields["parameters"] = plain(spec.parameters)
    return to_yaml({name: fields[name] for name in RUN.fields if name in fields})


def _relative(path: str, directory: str) -> str:
    """A path of the submitter's machine, relative to the run file's directory if it is below it."""
    below = posixpath.relpath(path, directory)
    return path if below.startswith("..") else below
