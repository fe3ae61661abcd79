"""A Clusterfudge launch script as it was written for Clusterfudge. Two jobs, one of them in two copies.

tarmac launch --rehearse 2x8 --follow examples/20-clusterfudge/launch.py
"""

import os
from pathlib import Path

import clusterfudge

# Own code before the launch: the project is the one this script lies in, whatever directory we stand in.
os.chdir(Path(__file__).resolve().parent)


def main():
    client = clusterfudge.Client()
    launch = client.create_launch(
        clusterfudge.CreateLaunchRequest(
            name="hello-world-example",
            description="Two trainers of two H100s each, and somebody who watches.",
            deployment=clusterfudge.LocalDir(),
            jobs=[
                clusterfudge.Job(
                    short_name="trainer",
                    replicas=2,
                    replica_failure_behaviour=clusterfudge.OnReplicaFailureOtherReplicasAreStopped(),
                    processes=[
                        clusterfudge.Process(
                            command=["python3", "hello.py"],
                            resource_requirements=clusterfudge.Resources(h100=2),
                        ),
                    ],
                ),
                clusterfudge.Job(
                    short_name="watcher",
                    replicas=1,
                    processes=[clusterfudge.Process(command=["python3", "hello.py"])],
                ),
            ],
        )
    )
    print(f"Launched: launch/{launch.launch_id}")


if __name__ == "__main__":
    main()
