import clusterfudge as cf

client = cf.Client()
client.create_launch(cf.CreateLaunchRequest(jobs=[cf.Job("a", 1, [cf.Process(["a"], cf.Resources(h10=2, A100=1, memory=4))])]))
