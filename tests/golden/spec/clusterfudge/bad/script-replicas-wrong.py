import clusterfudge as cf

client = cf.Client()
client.create_launch(
    cf.CreateLaunchRequest(
        jobs=[
            cf.Job("a", 0, [cf.Process(["a"])]),
            cf.Job("b", -1, [cf.Process(["a"])]),
            cf.Job("c", "2", [cf.Process(["a"])]),
            cf.Job("d", 1.5, [cf.Process(["a"])]),
        ]
    )
)
