"""Canaille, an identity provider in Python, on a free port of loopback, with one user who is logged in.

Run by `identity_providers` in an environment that has pytest-iam: `canaille_provider.py REDIRECT_URI`. The
first line of its output is its address.
"""

import os
import sys
import uuid

from canaille import create_app
from canaille.backends import Backend
from joserfc.jwk import JWKRegistry
from portpicker import pick_unused_port
from pytest_iam import Server

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
port = pick_unused_port()
key = JWKRegistry.generate_key("RSA", 2048)
key.ensure_kid()
app = create_app(
    config={
        "ENV_FILE": None,
        "SECRET_KEY": str(uuid.uuid4()),
        "WTF_CSRF_ENABLED": False,
        "PREFERRED_URL_SCHEME": "http",
        "SERVER_NAME": f"localhost:{port}",
        "CANAILLE": {
            "DATABASE": "memory",
            "JAVASCRIPT": False,
            "ACL": {"DEFAULT": {"PERMISSIONS": ["use_oidc"]}},
        },
        "CANAILLE_OIDC": {"ACTIVE_JWKS": [key.as_dict(private=True)]},
    }
)
server = Server(app, port, Backend.instance)
with app.app_context():
    user = server.random_user(user_name="grace", emails=["grace@lab.example"])
    group = server.random_group(display_name="gpu-admins", members=[user])
    client = server.models.Client(
        client_id="tarmac",
        client_secret="the secret of the client",
        client_name="tarmac",
        redirect_uris=[sys.argv[1]],
        grant_types=["authorization_code"],
        response_types=["code"],
        token_endpoint_auth_method="client_secret_basic",
        scope=["openid", "profile", "email", "groups"],
    )
    server.backend.save(client)
    client.audience = [client]
    server.backend.save(client)
    server.consent(user, client)
    server.login(user)
    sys.stdout.write(f"http://localhost:{port}\n")
    sys.stdout.flush()
    server.httpd.serve_forever()
