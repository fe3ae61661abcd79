import clusterfudge as cf

client = cf.Client()
client.create_launch(cf.CreateLaunchRequest(jobs=[]))
