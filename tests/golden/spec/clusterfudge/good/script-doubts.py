import clusterfudge as cf

client = cf.Client()
client.create_launch(
    cf.CreateLaunchRequest(
        jobs=[
            cf.Job("a", 1, [cf.Process(["/bin/bash", "-c", "echo", "Hello from Bash!"])]),
            cf.Job("b", 1, [cf.Process(["python3 train.py"])]),
            cf.Job("c", 1, [cf.Process(["python3", "train.py", ">", "log.txt"])]),
            cf.Job("d", 1, [cf.Process(["python3", "train.py", "--rank=$CLUSTERFUDGE_REPLICA_INDEX"])]),
            cf.Job("e", 1, [cf.Process(["bash", "-c"])]),
            cf.Job("f", 1, [cf.Process(["bash", "-c", "echo $0", "fine"])]),
        ],
    )
)
