import clusterfudge as cf

client = cf.Client()
client.create_launch(cf.CreateLaunchRequest(jobs=[cf.Job("a", 1, [cf.Process(["a"], cf.Resources(h100="2", t4=1, cpus=-1))])]))
