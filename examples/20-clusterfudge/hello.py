"""Says who it is in its launch, by what Clusterfudge puts into the environment."""

import os

job = os.environ["CLUSTERFUDGE_JOB_NAME"]
replica = os.environ["CLUSTERFUDGE_REPLICA_INDEX"]
replicas = os.environ["CLUSTERFUDGE_REPLICA_COUNT"]
devices = os.environ["CUDA_VISIBLE_DEVICES"] or "none"
print(f"replica {replica} of {replicas} of {job}, devices {devices}")
