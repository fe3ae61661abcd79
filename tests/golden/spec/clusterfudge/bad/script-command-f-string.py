import clusterfudge as cf

client = cf.Client()
lr = 0.1
client.create_launch(cf.CreateLaunchRequest(jobs=[cf.Job("a", 1, [cf.Process(f"python train.py {lr}")])]))
