from tarmac import clusterfudge as clusterfudge
from tarmac.client import Client as Client
from tarmac.client.launching import GitRepo as GitRepo
from tarmac.client.launching import LocalDir as LocalDir
from tarmac.client.launching import Process as Process
from tarmac.client.launching import Resources as Resources
from tarmac.client.launching import Role as Role
from tarmac.client.launching import Run as Run
from tarmac.node.sdk import checkpoint as checkpoint
from tarmac.node.sdk import finished as finished
from tarmac.node.sdk import latest_checkpoint as latest_checkpoint
from tarmac.node.sdk import report as report
from tarmac.node.sdk import should_pause as should_pause
from tarmac.node.sdk import time_left as time_left

__version__: str
