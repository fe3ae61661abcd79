"""The rules of a pool: the order of its queue, who may preempt whom, turns and blocks of time."""
