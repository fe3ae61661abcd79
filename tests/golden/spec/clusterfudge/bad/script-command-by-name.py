import clusterfudge as cf

client = cf.Client()
command = "python train.py"
client.create_launch(cf.CreateLaunchRequest(jobs=[cf.Job("a", 1, [cf.Process(command)])]))
