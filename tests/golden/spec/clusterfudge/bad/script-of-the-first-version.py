import clusterfudge as cf

client = cf.Client()
client.create_launch(cf.CreateLaunchRequest(command=["python3", "a.py"], replicas=2, replica_resources=cf.Resources(t4=1)))
