"""The rules of a pool: the order of its queue, who may displace whom, turns and blocks of time."""
