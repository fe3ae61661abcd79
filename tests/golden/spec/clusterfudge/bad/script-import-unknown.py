import clusterfudge as cf
from clusterfudge import CreateLaunchRequest, Worker

client = cf.Client()
client.create_launch(CreateLaunchRequest([Worker()]))
