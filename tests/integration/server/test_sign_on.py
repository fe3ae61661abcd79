"""Single sign-on against a provider in the test process: both flows, and everything that must be refused."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlsplit

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from served import OWNER, Served, served
from standin_provider import CLIENT, SECRET, Provider, standin_provider
from tarmac import api
from tarmac.client.sign_on import sign_on
from tarmac.model.actor import ActorRole
from tarmac.model.errors import InvalidInput, Refused, Unauthorized, Unavailable
from tarmac.model.people.account import Account, AccountSettings
from tarmac.server.accounts.sign_on import SignOnService
from tarmac.server.settings import SignOnSettings

CALLBACK = "http://127.0.0.1:4711/callback"
GROUPS = {"gpu-admins": ActorRole.ADMIN, "guests": ActorRole.VIEWER}
START = 1_000_000.0


class Site:
    """A server, its provider, and logins of the provider's user."""

    def __init__(self, plane: Served, provider: Provider) -> None:
        self.plane, self.provider = plane, provider
        self.client = plane.remote_client("")

    def finish(self, begun: api.SignOn, **answer: str) -> api.NewToken:
        made = self.client.finish_sign_on(begun.request, **answer).login
        assert made is not None
        return made

    def log_in(self) -> api.NewToken:
        begun = self.client.begin_sign_on(CALLBACK, browser=True)
        return self.finish(begun, **self.provider.log_in(begun.url))

    def accounts(self) -> dict[str, Account]:
        return {each.name: each for each in self.plane.client().users()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A server whose provider makes accounts and gives roles. Its first account is that of ada."""
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    with standin_provider(lambda: START) as provider:
        settings = SignOnSettings(
            issuer=provider.issuer,
            client_id=CLIENT,
            client_secret_file=str(secret),
            groups=GROUPS,
            create_accounts=True,
        )
        with served(tmp_path / "home", sign_on=settings) as plane:
            provider.now = plane.clock.now
            plane.client().set_user("ada")
            yield Site(plane, provider)


def test_a_user_logs_in_by_a_code(site: Site) -> None:
    """N15: RFC 8628, with a question too early and one too often; the account is a member's."""
    site.provider.impatient = True
    shown: list[api.SignOn] = []

    class Confirming:
        """The client, whose user confirms after the second question."""

        def begin_sign_on(self, *given: Any, **named: Any) -> api.SignOn:
            begun = site.client.begin_sign_on(*given, **named)
            assert (begun.code, begun.url) == ("WDJB-MJHT", f"{site.provider.issuer}/code")
            for slow_down in (True, False):
                pending = site.client.finish_sign_on(begun.request)
                assert pending == api.SignOnProgress(slow_down=slow_down)
            site.provider.confirmed = True
            return begun

        finish_sign_on = site.client.finish_sign_on

    made, begun = sign_on(Confirming(), label="laptop", browser=False, show=shown.append)  # type: ignore[arg-type]
    assert shown == [begun]
    assert begun.logout_url == f"{site.provider.issuer}/end?client_id={CLIENT}"
    assert (made.token.user, made.token.label) == ("grace", "laptop")
    account = site.plane.remote_client(made.text).account()
    assert (account.name, account.role, account.has_password) == ("grace", ActorRole.MEMBER, False)
    assert account.identity == f"{site.provider.issuer}#u-1"
    assert site.provider.revoked == ["of-the-user"]
    with pytest.raises(Unauthorized, match="given its token already"):
        site.client.finish_sign_on(begun.request)
    recorded = [(each.target, each.status) for each in site.plane.client().audit()][::-1]
    ends = [status for target, status in recorded if target == "/login/sso/token"]
    assert ends == [200, 401], "neither question before the user had confirmed"


def test_a_user_logs_in_by_a_browser(site: Site) -> None:
    """N15: with PKCE to a loopback port, and requests of another page at that port before."""
    site.provider.devices = False
    answers: list[int] = []
    threads: list[Thread] = []

    def visit(begun: api.SignOn) -> None:
        def browse() -> None:
            address = dict(parse_qsl(urlsplit(begun.url).query))["redirect_uri"]
            for stray in ("/", "/callback", "/callback?code=evil&state=other"):
                try:
                    urllib.request.urlopen(address.replace("/callback", stray), timeout=30)
                except HTTPError as error:
                    answers.append(error.code)
                    error.close()
            with urllib.request.urlopen(begun.url, timeout=30) as page:
                answers.append(page.status)

        assert begun.code is None
        threads.append(Thread(target=browse))
        threads[0].start()

    made, _ = sign_on(site.client, label="laptop", browser=False, show=visit)
    threads[0].join()
    assert answers == [404, 404, 404, 200]
    assert site.plane.remote_client(made.text).account().name == "grace"


def test_a_user_who_declines_is_not_logged_in(site: Site) -> None:
    def decline(begun: api.SignOn) -> None:
        given = dict(parse_qsl(urlsplit(begun.url).query))
        address = f"{given['redirect_uri']}?error=access_denied&state={given['state']}"
        Thread(target=lambda: urllib.request.urlopen(address, timeout=30).close()).start()

    with pytest.raises(Unauthorized, match="access_denied"):
        sign_on(site.client, label="laptop", browser=True, show=decline)


def _unsigned(header: dict[str, Any], claims: bytes) -> str:
    parts = (json.dumps({**header, "alg": "none"}).encode(), claims)
    return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts) + "."


def _with_the_public_key(provider: Provider) -> Callable[[dict[str, Any], bytes], str]:
    def sign(header: dict[str, Any], claims: bytes) -> str:
        key = OctKey.import_key(base64.b64encode(provider.key.as_pem(private=False)))
        registry = JWSRegistry(algorithms=["HS256"])
        return jws.serialize_compact({**header, "alg": "HS256"}, claims, key, registry=registry)

    return sign


def _with_another_key(provider: Provider) -> Callable[[dict[str, Any], bytes], str]:
    def sign(header: dict[str, Any], claims: bytes) -> str:
        return jws.serialize_compact(header, claims, RSAKey.generate_key(2048), algorithms=["RS256"])

    return sign


BAD: dict[str, tuple[str, Callable[[Provider], object]]] = {
    "alg none": ("not valid", lambda it: setattr(it, "sign", _unsigned)),
    "HS256 with the public key": ("not valid", lambda it: setattr(it, "sign", _with_the_public_key(it))),
    "another key": ("bad_signature", lambda it: setattr(it, "sign", _with_another_key(it))),
    "no token": ("not valid", lambda it: setattr(it, "sign", lambda _header, _claims: "nonsense")),
    "issuer": ("iss", lambda it: setattr(it, "change_claims", lambda c: c.update(iss="https://x"))),
    "audience": ("aud", lambda it: setattr(it, "change_claims", lambda c: c.update(aud="another"))),
    "several audiences": (
        "azp",
        lambda it: setattr(it, "change_claims", lambda c: c.update(aud=[CLIENT, "x"], azp="x")),
    ),
    "nonce": ("nonce", lambda it: setattr(it, "change_claims", lambda c: c.update(nonce="x"))),
    "no nonce": ("nonce", lambda it: setattr(it, "change_claims", lambda c: c.pop("nonce"))),
    "no subject": ("sub", lambda it: setattr(it, "change_claims", lambda c: c.pop("sub"))),
    "a number as subject": ("sub", lambda it: setattr(it, "change_claims", lambda c: c.update(sub=7))),
    "no expiry": ("exp", lambda it: setattr(it, "change_claims", lambda c: c.pop("exp"))),
    "expired": ("expired", lambda it: setattr(it, "change_claims", lambda c: c.update(exp=START - 61))),
    "its clock is ahead": ("compare the clocks", lambda it: setattr(it, "now", lambda: START + 300)),
    "its clock is behind": ("compare the clocks", lambda it: setattr(it, "now", lambda: START - 300)),
    "another user's claims": (
        "another user",
        lambda it: setattr(it, "change_claims", lambda c: c.update(sub="u-2")),
    ),
    "an unknown key": ("No key", lambda it: setattr(it, "change_header", lambda h: h.update(kid="new"))),
}


@pytest.mark.parametrize("what", BAD)
def test_a_wrong_id_token_is_refused(site: Site, what: str) -> None:
    """N15: no account and no token come of it."""
    sentence, spoil = BAD[what]
    spoil(site.provider)
    with pytest.raises(Unauthorized, match=sentence):
        site.log_in()
    assert set(site.accounts()) == {"ada"}


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("PS256", RSAKey.generate_key(2048, {"kid": "x"})),
        ("ES256", ECKey.generate_key("P-256", {"kid": "x"})),
        ("Ed25519", OKPKey.generate_key("Ed25519", {"kid": "x"})),
    ],
)
def test_a_key_of_another_kind_signs_as_well(site: Site, algorithm: str, key: Any) -> None:
    provider = site.provider
    provider.key, provider.change_header = key, lambda header: header.update(alg=algorithm)
    provider.sign = lambda header, claims: jws.serialize_compact(header, claims, key, [algorithm])
    assert site.log_in().token.user == "grace"


def test_clocks_may_differ_by_a_little(site: Site) -> None:
    site.provider.now = lambda: START + 50
    assert site.log_in().token.user == "grace"


def test_a_new_key_of_the_provider_counts_at_once(site: Site) -> None:
    """The keys are fetched once, and once more for an unknown key alone."""
    site.log_in()
    site.log_in()
    assert site.provider.requests.count("/keys") == 1
    site.provider.rotate()
    site.log_in()
    assert site.provider.requests.count("/keys") == 2
    site.provider.change_header = lambda header: header.update(kid="nowhere")
    with pytest.raises(Unauthorized):
        site.log_in()
    assert site.provider.requests.count("/keys") == 3
    assert site.provider.requests.count("/.well-known/openid-configuration") == 1


def test_a_code_is_redeemed_once_by_any_server(site: Site) -> None:
    """N15: also if the provider would redeem it again; another server on the database can finish a login."""
    site.provider.codes_work_again = True
    begun = site.client.begin_sign_on(CALLBACK, browser=True)
    answer = site.provider.log_in(begun.url)
    plane = site.plane
    other = SignOnService(plane.sign_on, plane.accounts, plane.keys, plane.clock)
    body = api.SignOnBody(request=begun.request, **answer)
    assert other.finish(body).login is not None
    with pytest.raises(Unauthorized, match="given its token already"):
        site.finish(begun, **answer)
    assert len(site.plane.client().tokens(user="grace")) == 1
    site.provider.codes_work_again = False
    begun = site.client.begin_sign_on(CALLBACK, browser=True)
    answer = site.provider.log_in(begun.url)
    site.finish(begun, **answer)
    with pytest.raises(Unauthorized, match="invalid_grant: no such code"):
        site.finish(begun, **answer)


def test_a_login_belongs_to_the_client_that_began_it(site: Site) -> None:
    """N15: the code of another login, a changed request, an old one, and an address that is no client's."""
    mine, other = (site.client.begin_sign_on(CALLBACK, browser=True) for _ in range(2))
    answer = site.provider.log_in(other.url)
    with pytest.raises(Unauthorized, match="another login"):
        site.finish(mine, **answer)
    with pytest.raises(Unauthorized, match="invalid_grant"):  # the verifier is that of the other login
        site.finish(mine, code=answer["code"], state=site.provider.log_in(mine.url)["state"])
    with pytest.raises(Unauthorized, match="no such login"):
        site.client.finish_sign_on(f"{other.request[:-8]}AAAAAAA=")
    site.plane.clock.advance(301)
    with pytest.raises(Unauthorized, match="too long"):
        site.finish(other, **answer)
    for address in ("https://evil.example/callback", f"{CALLBACK}/../x", "http://127.0.0.1:80@evil/callback"):
        with pytest.raises(InvalidInput, match=r"is not http://127\.0\.0\.1:PORT/callback"):
            site.client.begin_sign_on(address)


def test_a_provider_that_is_down_is_said_to_be(tmp_path: Path) -> None:
    with standin_provider(lambda: START) as provider:
        settings = SignOnSettings(issuer=provider.issuer, client_id=CLIENT)
    with served(tmp_path / "home", sign_on=settings) as plane:
        plane.client().set_user("ada", password="correct horse battery")
        with pytest.raises(Unavailable, match=rf"{provider.issuer} does not answer: .*refused"):
            plane.remote_client("").begin_sign_on(CALLBACK)
        assert plane.remote_client("").login("ada", "correct horse battery").token.user == "ada"


@pytest.mark.parametrize(
    ("described", "sentence"),
    [
        ({"issuer": "https://another.example"}, "calls itself 'https://another.example'"),
        ({"token_endpoint": "file:///etc/passwd"}, "an unsafe address: 'file:///etc/passwd'"),
        ({"token_endpoint": 7}, "answers 200: Expected `str`"),
        ({"token_endpoint": "http://127.0.0.1:1/"}, "does not answer"),
    ],
)
def test_a_wrong_description_of_a_provider_is_refused(
    site: Site, described: dict[str, Any], sentence: str
) -> None:
    site.provider.described = described
    with pytest.raises(Unavailable, match=sentence):
        site.log_in()


def test_a_server_without_a_provider_has_no_sign_on(tmp_path: Path) -> None:
    with served(tmp_path / "home") as plane, pytest.raises(Refused, match="no single sign-on"):
        plane.remote_client("").begin_sign_on(CALLBACK)


def test_the_first_account_is_not_made_by_a_login(site: Site) -> None:
    site.plane.client().remove_user("ada")
    with pytest.raises(Refused, match="first account is created on the server's own machine"):
        site.log_in()
    assert site.accounts() == {}


def test_groups_give_roles_by_the_table_alone(site: Site) -> None:
    """N15: a new account is a member's; the table gives and takes roles with each login."""
    user = site.provider.user
    for groups, role in (
        (["admin", "administrators"], ActorRole.MEMBER),
        (["guests"], ActorRole.VIEWER),
        (["guests", "gpu-admins", "staff"], ActorRole.ADMIN),
        ("gpu-admins", ActorRole.ADMIN),
        (["staff"], ActorRole.MEMBER),
        ([["gpu-admins"], {"gpu-admins": 1}, 7], ActorRole.MEMBER),
        (None, ActorRole.MEMBER),
    ):
        user["groups"] = groups
        token = site.log_in()
        assert site.accounts()["grace"].role is role, groups
    user["role"] = user["roles"] = "admin"
    site.log_in()
    assert site.plane.remote_client(token.text).account().role is ActorRole.MEMBER


def test_without_the_table_roles_are_those_of_the_server(tmp_path: Path) -> None:
    with standin_provider(lambda: START) as provider:
        settings = SignOnSettings(issuer=provider.issuer, client_id=CLIENT, create_accounts=True)
        with served(tmp_path / "home", sign_on=settings) as plane:
            plane.client().set_user("ada")
            service = SignOnService(settings, plane.accounts, plane.keys, plane.clock)
            user = {"sub": "1", "email": "grace@lab.example", "groups": ["gpu-admins"]}
            made = service._account(user)
            assert (made.name, made.role) == ("grace@lab.example", ActorRole.MEMBER)
            plane.client().set_user(made.name, AccountSettings(role=ActorRole.ADMIN, identity=made.identity))
            assert service._account(user).role is ActorRole.ADMIN


def test_no_login_takes_over_an_account(site: Site) -> None:
    """N15: of another user, of the owner of the server, or of root; an admin may name the identity."""
    owner, user = site.plane.client(), site.provider.user
    owner.set_user("bob")
    for name in ("bob", "Ada", OWNER, "api", "root"):
        user["preferred_username"] = name
        with pytest.raises(Refused, match=f"the name {name.lower()} is another account's"):
            site.log_in()
    owner.set_user("bob", AccountSettings(identity=f"{site.provider.issuer}#u-2"))
    with pytest.raises(Refused):
        site.log_in()
    owner.set_user("bob", AccountSettings(identity=f"{site.provider.issuer}#u-1"))
    user["preferred_username"] = "someone-else"
    assert site.log_in().token.user == "bob"
    owner.set_user("bob", AccountSettings(identity=f"{site.provider.issuer}#u-1", disabled=True))
    with pytest.raises(Unauthorized, match="bob is disabled"):
        site.log_in()


@pytest.mark.parametrize("name", ["", "a b", "-x", "ü", "x" * 64, "../etc", 7, None, ["grace"]])
def test_a_name_that_no_account_may_have_is_refused(site: Site, name: Any) -> None:
    site.provider.user["preferred_username"] = name
    with pytest.raises(Refused, match="no account can have the name of"):
        site.log_in()


def test_without_new_accounts_an_admin_adds_them(site: Site) -> None:
    plane = site.plane
    kept = SignOnSettings(issuer=site.provider.issuer, client_id=CLIENT)
    service = SignOnService(kept, plane.accounts, plane.keys, plane.clock)
    with pytest.raises(Unauthorized, match=r"tarmac users add NAME --identity http://127.*#u-1"):
        service._account(site.provider.user)
    assert set(site.accounts()) == {"ada"}


def test_two_servers_make_one_account_of_a_name(site: Site) -> None:
    """The second one to store it is refused by the database, not by what it knew."""
    account = Account(name="bob", created_at=START, identity="one")
    records = site.plane.accounts.records
    assert records.add_account(account)
    assert not records.add_account(Account(name="bob", created_at=START, identity="other"))
    site.plane.accounts.callers.forget()
    assert site.accounts()["bob"].identity == "one"
