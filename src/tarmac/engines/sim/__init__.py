"""The simulated engine: virtual nodes and virtual time under the real control plane."""
