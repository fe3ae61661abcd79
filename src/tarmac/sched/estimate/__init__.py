"""When a queued run is likely to start: the same code run forward, with running times that were learnt."""
