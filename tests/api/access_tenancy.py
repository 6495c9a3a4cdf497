"""Who may do what with tenants, members, roles, accounts and keys: a part of the access matrix.

The order of the statuses is that of `WHO`: anonymous, outsider, viewer, editor, admin, platform admin. The
tenant of the table is the workspace whose admin the `admin` is; its ids belong to nothing else, so that
who may ask gets 404 and who may not is refused before.
"""

from __future__ import annotations

from typing import Any, Final

NOWHERE: Final = "00000000-0000-7000-8000-000000000000"
VALUES: Final = {"member": NOWHERE, "role": NOWHERE, "user": NOWHERE, "group": NOWHERE, "account": "nobody"}

_OWN: Final = (401, 200, 200, 200, 200, 200)
_MEMBERS: Final = (401, 404, 200, 200, 200, 200)
_OPERATORS: Final = (401, 403, 403, 403, 403, 200)
_GONE: Final = (401, 404, 404, 404, 404, 404)
_ADMIN_GONE: Final = (401, 403, 403, 403, 403, 404)
_MANAGERS: Final = (401, 404, 403, 403, 200, 200)

TENANCY: Final[dict[tuple[str, str], tuple[int, ...]]] = {
    ("me/keys", "GET"): _OWN,
    ("me/keys", "POST"): (401, 201, 201, 201, 201, 201),
    ("me/keys/{prefix}", "DELETE"): _GONE,
    ("me/keys/{prefix}/rotate", "POST"): _GONE,
    ("me/password", "POST"): (401, 400, 400, 400, 400, 400),
    ("workspaces/{ws}/keys/{prefix}/rotate", "POST"): _GONE,
    ("tenants", "GET"): _OWN,
    # Below its own root nobody but the platform's admin may add: the others do not see it at all.
    ("tenants", "POST"): (401, 404, 403, 403, 404, 201),
    ("tenants/{tenant}", "GET"): _MEMBERS,
    ("tenants/{tenant}", "PATCH"): (401, 404, 403, 403, 200, 200),
    ("tenants/{tenant}/move", "POST"): (401, 404, 403, 403, 404, 200),
    ("tenants/{tenant}/archive", "POST"): (401, 404, 404, 404, 404, 200),
    ("tenants/{tenant}/restore", "POST"): (401, 404, 404, 404, 404, 200),
    ("tenants/{tenant}/members", "GET"): _MEMBERS,
    ("tenants/{tenant}/members", "POST"): (401, 404, 403, 403, 201, 201),
    ("tenants/{tenant}/members/{member}", "GET"): _GONE,
    ("tenants/{tenant}/members/{member}", "PATCH"): _GONE,
    ("tenants/{tenant}/members/{member}", "DELETE"): _GONE,
    ("tenants/{tenant}/permissions", "GET"): _MEMBERS,
    ("tenants/{tenant}/roles", "GET"): _MEMBERS,
    ("tenants/{tenant}/roles", "POST"): (401, 404, 403, 403, 201, 201),
    ("tenants/{tenant}/roles/{role}", "GET"): _GONE,
    ("tenants/{tenant}/roles/{role}", "PATCH"): _GONE,
    ("tenants/{tenant}/roles/{role}", "DELETE"): _GONE,
    ("tenants/{tenant}/service-accounts", "GET"): _MANAGERS,
    ("tenants/{tenant}/service-accounts", "POST"): (401, 404, 403, 403, 201, 201),
    ("tenants/{tenant}/service-accounts/{account}", "DELETE"): (401, 404, 403, 403, 404, 404),
    ("admin/members", "GET"): _OPERATORS,
    ("admin/members", "POST"): (401, 403, 403, 403, 403, 400),
    ("admin/members/{member}", "GET"): _ADMIN_GONE,
    ("admin/members/{member}", "PATCH"): _ADMIN_GONE,
    ("admin/members/{member}", "DELETE"): _ADMIN_GONE,
    ("admin/roles", "GET"): _OPERATORS,
    ("admin/roles", "POST"): (401, 403, 403, 403, 403, 201),
    ("admin/roles/{role}", "GET"): _ADMIN_GONE,
    ("admin/roles/{role}", "PATCH"): _ADMIN_GONE,
    ("admin/roles/{role}", "DELETE"): _ADMIN_GONE,
    ("admin/users", "GET"): _OPERATORS,
    ("admin/users", "POST"): (401, 403, 403, 403, 403, 201),
    ("admin/users/{user}", "GET"): _ADMIN_GONE,
    ("admin/users/{user}", "PATCH"): _ADMIN_GONE,
    ("admin/users/{user}/unlock", "POST"): _ADMIN_GONE,
    ("admin/users/{user}/password", "POST"): _ADMIN_GONE,
    ("admin/groups", "GET"): _OPERATORS,
    ("admin/groups", "POST"): (401, 403, 403, 403, 403, 201),
    ("admin/groups/{group}", "GET"): _ADMIN_GONE,
    ("admin/groups/{group}", "PATCH"): _ADMIN_GONE,
    ("admin/groups/{group}", "DELETE"): _ADMIN_GONE,
    ("admin/groups/{group}/people", "GET"): _ADMIN_GONE,
    ("admin/groups/{group}/people", "POST"): _ADMIN_GONE,
    ("admin/groups/{group}/people/{user}", "DELETE"): _ADMIN_GONE,
}


def bodies(root: str) -> dict[str, dict[str, Any]]:
    """What is sent to each route; `root` is the id of the folder above the workspaces."""
    return {
        "me/keys": {"name": "mine"},
        "me/password": {"old": "wrong", "new": "quite another 22"},
        "tenants": {"parent": root, "kind": "folder", "name": "Fresh"},
        "tenants/{tenant}": {"name": "Team A again"},
        "tenants/{tenant}/move": {"parent": root},
        "tenants/{tenant}/members": {"user": "ed", "role": "editor"},
        "tenants/{tenant}/roles": {"name": "Helper", "points": ["job.view"]},
        "tenants/{tenant}/service-accounts": {"name": "robot"},
        "admin/members": {"user": "ed", "role": "editor"},
        "admin/roles": {"name": "Helper", "points": ["cluster.view"]},
        "admin/users": {"username": "fresh", "password": "quite another 22"},
        "admin/groups": {"name": "Fresh"},
        "me/keys/{prefix}/rotate": {},
        "workspaces/{ws}/keys/{prefix}/rotate": {},
    }
