import clusterfudge as cf

client = cf.Client()
client.create_launch(cf.CreateLaunchRequest(jobs=[cf.Job("a", 1, [cf.Process(["python3", "a.py"])]), cf.Job(short_name="a", replicas=2, processes=[cf.Process(["b"])])]))
