"""One cycle: each pool is asked what is due, who starts, which runs are preempted and for which nodes are
reserved.
"""
