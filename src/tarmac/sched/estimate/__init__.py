"""The likely start of a queued run: the scheduler is run forward with learnt running times."""
