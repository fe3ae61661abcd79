"""The simulated engine: virtual nodes and virtual time under the real control plane."""

from tarmac.engines.sim.clock import VirtualClock
from tarmac.engines.sim.engine import SimEngine
from tarmac.engines.sim.simulated import SimRequest
from tarmac.engines.sim.story import Behaviour, Moment

__all__ = ["Behaviour", "Moment", "SimEngine", "SimRequest", "VirtualClock"]
