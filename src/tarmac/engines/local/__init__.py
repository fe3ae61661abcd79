"""The local engine: attempts as processes of this machine, which can represent many nodes."""

from tarmac.engines.local.engine import LocalEngine
from tarmac.engines.local.nodes import Machine, local_nodes, survey
from tarmac.model.cluster import NodeGroup

__all__ = ["LocalEngine", "Machine", "NodeGroup", "local_nodes", "survey"]
