"""The actors of the access matrix whose answers follow from a rule and a list of exceptions.

The own admin's column holds for the admin of the parent, who may do more only where the parent itself is
changed; the auditor of the platform is refused wherever nothing else stands here; a key that has expired is
no key; and a key whose scopes cover no route opens none. A new route that does not follow the rule fails the
matrix until it is named here.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from rest_framework.test import APIClient

from foundation import clock
from tenants.models import Role
from tenants.services.access_key import access_key_create
from tests.api.conftest import As
from tests.builders import tenancy
from tests.builders.world import World

Route = tuple[str, str]

DERIVED: Final = ("parent_admin", "auditor", "expired_key", "key_without_scope")

PARENT_ADMIN: Final[dict[Route, int]] = {
    ("tenants", "POST"): 201,
    ("tenants/{tenant}/move", "POST"): 200,
    ("tenants/{tenant}/archive", "POST"): 200,
    ("tenants/{tenant}/restore", "POST"): 200,
    ("admin/priority-grants", "POST"): 400,
    ("admin/budgets", "POST"): 400,
}

_READS: Final = (
    "me", "me/keys", "workspaces", "workspaces/{ws}", "workspaces/{ws}/keys", "workspaces/{ws}/audit",
    "workspaces/{ws}/audit/export", "admin/audit", "admin/audit/export", "admin/quotas", "admin/quota-file",
    "tenants", "tenants/{tenant}", "tenants/{tenant}/members", "tenants/{tenant}/permissions",
    "tenants/{tenant}/roles", "admin/priority-classes", "admin/priority-grants", "admin/policies",
    "tenants/{tenant}/policy", "workspaces/{ws}/policy", "admin/quota-requests", "admin/overrides",
    "admin/budgets",
)  # fmt: skip
_OWN: Final[dict[Route, int]] = {
    ("me/keys", "POST"): 201,
    ("me/password", "POST"): 400,
    ("workspaces/{ws}/keys", "POST"): 201,
}
# What is not there is not there for an auditor either, who sees the tenant it would belong to.
_ABSENT: Final[tuple[Route, ...]] = (
    ("me/keys/{prefix}", "DELETE"),
    ("me/keys/{prefix}/rotate", "POST"),
    ("workspaces/{ws}/keys/{prefix}", "DELETE"),
    ("workspaces/{ws}/keys/{prefix}/rotate", "POST"),
    ("admin/quota-revisions/{revision}/revert", "POST"),
    ("admin/priority-grants/{grant}", "DELETE"),
    ("admin/priority-classes/{name}", "GET"),
    ("admin/priority-classes/{name}", "PATCH"),
    ("admin/overrides/{override}", "GET"),
    ("admin/overrides/{override}", "PATCH"),
    ("admin/overrides/{override}/end", "POST"),
    *(
        (f"admin/quota-requests/{{quota_request}}/{verb}", "POST")
        for verb in ("withdraw", "accept", "decline")
    ),
    ("admin/quota-requests/{quota_request}", "GET"),
    ("admin/quota-requests/{quota_request}/approve", "POST"),
    ("admin/quota-requests/{quota_request}/reject", "POST"),
    ("admin/quota-requests/{quota_request}/counter", "POST"),
    *(("admin/budgets/{budget}", method) for method in ("GET", "PATCH", "DELETE")),
    *(("tenants/{tenant}/members/{member}", method) for method in ("GET", "PATCH", "DELETE")),
    *(("tenants/{tenant}/roles/{role}", method) for method in ("GET", "PATCH", "DELETE")),
)
AUDITOR: Final[dict[Route, int]] = {
    **{(route, "GET"): 200 for route in _READS},
    **_OWN,
    **dict.fromkeys(_ABSENT, 404),
}


def expected(who: str, route: Route, own_admin: int) -> int:
    """The status that a derived actor gets; `own_admin` is what the admin of the workspace gets."""
    return {
        "parent_admin": PARENT_ADMIN.get(route, own_admin),
        "auditor": AUDITOR.get(route, 403),
        "expired_key": 401,
        # Of its one scope; every other is missing.
        "key_without_scope": 200 if route == ("admin/clusters/{cluster}", "PATCH") else 403,
    }[who]


def client(who: str, w: World, as_user: As) -> APIClient:
    """A client of the derived actor."""
    if who == "parent_admin":
        return as_user(tenancy.user("pia", w.workspace.parent, Role.ADMIN))
    if who == "auditor":
        return as_user(tenancy.user("audrey", None, Role.AUDITOR))
    expired = who == "expired_key"
    token = access_key_create(
        acting_user=w.platform_admin,
        user=w.platform_admin,
        name=who,
        scopes=() if expired else ("cluster.edit",),
        expires_at=clock.now() + timedelta(hours=1),
    )[1]
    if expired:
        w.platform_admin.access_keys.update(expires_at=clock.now() - timedelta(seconds=1))
    bearer = APIClient()
    bearer.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return bearer
