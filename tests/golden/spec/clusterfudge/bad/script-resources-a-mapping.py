import clusterfudge as cf

client = cf.Client()
client.create_launch(cf.CreateLaunchRequest(jobs=[cf.Job("a", 1, [cf.Process(["a"], {"h100": 2})])]))
