"""The local engine: attempts as processes of this machine, which can represent many nodes."""

from tarmac.engines.local.devices import Machine, survey
from tarmac.engines.local.engine import LocalEngine
from tarmac.engines.local.nodes import local_nodes
from tarmac.model.cluster import NodeGroup

__all__ = ["LocalEngine", "Machine", "NodeGroup", "local_nodes", "survey"]
