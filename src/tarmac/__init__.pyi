from tarmac.client import Client as Client
from tarmac.client.launching import GitRepo as GitRepo
from tarmac.client.launching import LocalDir as LocalDir
from tarmac.client.launching import Process as Process
from tarmac.client.launching import Resources as Resources
from tarmac.client.launching import Role as Role
from tarmac.client.launching import Run as Run
from tarmac.model.errors import Forbidden as Forbidden
from tarmac.model.errors import InvalidInput as InvalidInput
from tarmac.model.errors import NeverFits as NeverFits
from tarmac.model.errors import NotFound as NotFound
from tarmac.model.errors import Problem as Problem
from tarmac.model.errors import Refused as Refused
from tarmac.model.errors import StorageFull as StorageFull
from tarmac.model.errors import TarmacError as TarmacError
from tarmac.model.errors import TooLarge as TooLarge
from tarmac.model.errors import TooManyRequests as TooManyRequests
from tarmac.model.errors import Unauthorized as Unauthorized
from tarmac.model.errors import Unavailable as Unavailable
from tarmac.model.errors import WaitTimeout as WaitTimeout
from tarmac.node.sdk import checkpoint as checkpoint
from tarmac.node.sdk import finished as finished
from tarmac.node.sdk import latest_checkpoint as latest_checkpoint
from tarmac.node.sdk import parameters as parameters
from tarmac.node.sdk import report as report
from tarmac.node.sdk import should_pause as should_pause
from tarmac.node.sdk import time_left as time_left
from tarmac.systems.clusterfudge import scripts as clusterfudge  # noqa: F401

__version__: str
