import clusterfudge as cf

client = cf.Client()
client.create_launch(cf.CreateLaunchRequests(jobs=[cf.Jobs(1)]))
