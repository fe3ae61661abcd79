from tarmac.client import Client as Client
from tarmac.client import LocalDir as LocalDir
from tarmac.client import Process as Process
from tarmac.client import Resources as Resources
from tarmac.client import Role as Role
from tarmac.client import Run as Run

__version__: str
