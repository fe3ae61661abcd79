import clusterfudge as cf

client = cf.Client()
request = cf.CreateLaunchRequest(jobs=[cf.Job("a", 1, [cf.Process(["python3", "a.py"])])])
