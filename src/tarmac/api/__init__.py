"""The operations of the API and the shapes of its answers, defined once, as docs/using/api.md has them.

The server encodes these records, OpenAPI describes them, and the client decodes answers into them. An answer
that equals a record of `model` has no class here. Each module is imported at the first use of one of its
names: a command needs few of them, and has to start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarmac.api.cluster_operations import *
    from tarmac.api.clusters import *
    from tarmac.api.experiment_operations import *
    from tarmac.api.experiments import *
    from tarmac.api.files import *
    from tarmac.api.numbers import *
    from tarmac.api.placement import *
    from tarmac.api.queue import *
    from tarmac.api.run_operations import *
    from tarmac.api.runs import *
    from tarmac.api.server import *
    from tarmac.api.storage_operations import *
    from tarmac.api.submit_operations import *
else:
    _OPERATIONS = (
        *("run_operations", "submit_operations", "cluster_operations"),
        *("experiment_operations", "storage_operations"),
    )
    _RECORDS = ("runs", "placement", "queue", "clusters", "files", "experiments", "server", "numbers")

    def __getattr__(name: str) -> Any:
        is_operation = name.isupper() or name.endswith(("Query", "Body"))
        for module in _OPERATIONS if is_operation else (*_RECORDS, *_OPERATIONS):
            found = vars(import_module(f"tarmac.api.{module}")).get(name)
            if found is not None:
                globals()[name] = found
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
