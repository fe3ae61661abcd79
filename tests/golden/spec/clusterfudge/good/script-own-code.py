import argparse
import clusterfudge


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--replicas", type=int, default=2)
    arguments = parser.parse_args()
    jobs = [
        clusterfudge.Job(f"job_{n}", arguments.replicas, [clusterfudge.Process(["python3", *("a.py", "b")])])
        for n in range(3)
    ]
    client = clusterfudge.Client()
    launch = client.create_launch(clusterfudge.CreateLaunchRequest(jobs, name="x"))
    print(launch.launch_id)


if __name__ == "__main__":
    main()
