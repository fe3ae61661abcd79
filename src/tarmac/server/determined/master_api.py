"""What there is to say about the server itself: `/info`, `det master info`. Listed in `route_list`."""

from __future__ import annotations

from typing import Any

from tarmac.dialects.determined.identity import uuid_of
from tarmac.server.determined.calls import Access, Call, get
from tarmac.server.determined.gateway import VERSION


def _info(call: Call) -> Any:
    service = call.gateway.service
    return {
        "version": VERSION,
        "cluster_id": uuid_of("home", service.home),
        "cluster_name": "tarmac",
        "master_id": uuid_of("server", service.home, str(service.started_at)),
        "telemetry": {"enabled": False},
        "external_login_uri": "",
        "external_logout_uri": "",
        "branding": "determined",
        "rbacEnabled": False,
        "sso_providers": None,
    }


def _master(call: Call) -> Any:
    info = _info(call)
    return {
        "version": info["version"],
        "masterId": info["master_id"],
        "clusterId": info["cluster_id"],
        "clusterName": info["cluster_name"],
        "telemetryEnabled": False,
        "externalLoginUri": "",
        "externalLogoutUri": "",
        "branding": info["branding"],
        "rbacEnabled": False,
        "product": "PRODUCT_UNSPECIFIED",
        "featureSwitches": [],
        "userManagementEnabled": False,
        "strictJobQueueControl": False,
        "strictNtscEnabled": False,
        "hasCustomLogo": False,
        "ssoProviders": [],
        "clusterMessage": None,
    }


ROUTES = (
    get("/info", _info, Access.OPEN),
    get("/api/v1/master", _master, Access.OPEN),
)
