"""Sorts this replica's share of some words; shows how replicas split the work among themselves."""

import os

WORDS = ["runway", "taxi", "gate", "apron", "hangar", "tower", "beacon", "windsock", "chock", "bridge"]

replica = int(os.environ["TARMAC_REPLICA"])
replicas = int(os.environ["TARMAC_REPLICAS"])
slot = os.environ["CUDA_VISIBLE_DEVICES"]

share = sorted(WORDS[replica::replicas])
print(f"replica {replica} of {replicas}, on slot {slot}: {' '.join(share)}")
