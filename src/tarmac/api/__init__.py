"""The shapes of the API's answers, defined once: each class is a JSON object of docs/using/api.md.

The server answers with them, the client reads them, and FastAPI makes OpenAPI from them. They are
dictionaries: nothing is built or checked at run time, and a client imports them for its type checker alone.
"""

from tarmac.api.clusters import *
from tarmac.api.experiments import *
from tarmac.api.files import *
from tarmac.api.metrics import *
from tarmac.api.numbers import *
from tarmac.api.placement import *
from tarmac.api.queue import *
from tarmac.api.runs import *
from tarmac.api.server import *
from tarmac.api.usage import *
