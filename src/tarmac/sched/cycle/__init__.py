"""One cycle: each pool is asked what is due, who starts, who gives way and for whom nodes are kept."""
