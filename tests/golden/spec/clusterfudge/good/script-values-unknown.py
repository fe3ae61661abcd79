import clusterfudge as cf

client = cf.Client()
def launch(replicas, **more):
    resources = cf.Resources(**more)
    job = cf.Job("a", replicas, [cf.Process(*more["x"], resources)])
    return client.create_launch(cf.CreateLaunchRequest(jobs=[job], **more))
