"""How other systems would show the runs: one display each, found by name in `registry`."""
