"""Accounts, keys, tenants, members, roles, groups and the audit, by the REST API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tests.access.actors import ALL, POINTS, VIEW
from tests.access.table import EVERYBODY, NOBODY, SIGHT, Ask, Need, anywhere, cover, inside, must, need, see

EDIT: Final = "member.edit"
MOVES: Final = need("tenant.edit", "above") + cover(*POINTS, place="above")
"""The need for moving a tenant out of a folder: the actor must have every point that the roles there have."""
_AUDIT: Final = "audit.view"
_KEYS_SEEN: Final = SIGHT + see((EDIT, "here"))


def api(route: str, method: str, wanted: Need, scope: str | None = None, **more: Any) -> Ask:
    """Return a row of the API; it is sent with `If-Match: *`."""
    return Ask(route=f"api/v1/{route}", method=method, need=wanted, scope=scope, **more)


_AS_CHIEF: Final = cover(*POINTS)
_OVER_CHIEF: Final = must((EDIT, "here")) + _AS_CHIEF
_FOUND_BY_CHIEF: Final = tuple(replace(clause, refusal=404) for clause in _AS_CHIEF)
"""The need for keys of a program with all rights in a workspace: the actor must have as many."""
_PASSWORDS: Final = {"old": "a long password 1", "new": "quite another 22"}
ME: Final = (
    api("schema", "GET", EVERYBODY, open=True),
    api("docs", "GET", EVERYBODY, open=True),
    api("me", "GET", EVERYBODY, VIEW, shows=(('"quota.edit"', must(("quota.edit", "platform"))),)),
    api("me/keys", "GET", EVERYBODY),
    api(
        "me/keys",
        "POST",
        EVERYBODY,
        ok=201,
        program=403,
        chosen=True,
        body={"name": "mine"},
        writes="tenants_accesskey",
    ),
    api("me/keys/{prefix}", "DELETE", NOBODY, case="of another"),
    api(
        "me/keys/{own_key}",
        "DELETE",
        EVERYBODY,
        ok=204,
        program=403,
        chosen=True,
        arrange="own-key",
        writes="tenants_accesskey",
    ),
    api("me/keys/{prefix}/rotate", "POST", NOBODY, body={}, case="of another"),
    api(
        "me/keys/{own_key}/rotate",
        "POST",
        EVERYBODY,
        ok=201,
        program=403,
        chosen=True,
        body={},
        arrange="own-key",
        writes="tenants_accesskey",
    ),
    api("me/password", "POST", must(), body=_PASSWORDS, case="by a key"),
    api(
        "me/password",
        "POST",
        EVERYBODY,
        ok=204,
        body=_PASSWORDS,
        writes="tenants_user",
        session=True,
        unchosen=True,
        has_dry_run=False,
        case="by a session",
    ),
    api(
        "me/password",
        "POST",
        must(),
        body=_PASSWORDS,
        session=True,
        unchosen=True,
        arrange="expired",
        has_dry_run=False,
        case="that has expired",
    ),
    api("workspaces/{ws}", "GET", SIGHT, session=True, case="by a session"),
)

WORKSPACES: Final = (
    api("workspaces", "GET", EVERYBODY, VIEW, lists="tenant", listed=SIGHT),
    api("workspaces/{ws}", "GET", SIGHT, VIEW, shows=(('"quota.edit"', must(("quota.edit", "here"))),)),
    api(
        "workspaces/{ws}/keys",
        "GET",
        SIGHT,
        lists="prefix",
        listed=need(EDIT),
        shows=(("{chief_prefix}", _OVER_CHIEF),),
    ),
    api(
        "workspaces/{ws}/keys",
        "POST",
        SIGHT + need(EDIT) + _AS_CHIEF,
        ok=201,
        case="of a program with more rights",
        chosen=True,
        body={"name": "ci", "service_account": "{chief}"},
        writes="tenants_accesskey",
    ),
    *(
        api(
            f"workspaces/{{ws}}/keys/{{chief_prefix}}{tail}",
            method,
            SIGHT + see((EDIT, "here")) + _FOUND_BY_CHIEF,
            ok=ok,
            chosen=True,
            body=body,
            writes="tenants_accesskey",
            case="of a program with more rights",
        )
        for method, tail, ok, body in (("DELETE", "", 204, None), ("POST", "/rotate", 201, {}))
    ),
    api(
        "workspaces/{ws}/keys",
        "POST",
        SIGHT,
        ok=201,
        program=403,
        chosen=True,
        body={"name": "mine"},
        writes="tenants_accesskey",
    ),
    api(
        "workspaces/{ws}/keys",
        "POST",
        SIGHT + need(EDIT),
        ok=201,
        case="of a program",
        chosen=True,
        body={"name": "ci", "service_account": "{account}"},
        writes="tenants_accesskey",
    ),
    api(
        "workspaces/{ws}/keys/{prefix}", "DELETE", _KEYS_SEEN, ok=204, chosen=True, writes="tenants_accesskey"
    ),
    api(
        "workspaces/{ws}/keys/{prefix}/rotate",
        "POST",
        _KEYS_SEEN,
        ok=201,
        chosen=True,
        body={},
        writes="tenants_accesskey",
    ),
    api(
        "workspaces/{ws}/audit",
        "GET",
        inside(_AUDIT),
        _AUDIT,
        query="?limit=500",
        lists="record",
        listed=need(_AUDIT),
    ),
    api("workspaces/{ws}/audit/export", "GET", inside(_AUDIT), _AUDIT),
    api("admin/audit", "GET", need(_AUDIT, "platform"), _AUDIT, query="?limit=500"),
    api("admin/audit/export", "GET", need(_AUDIT, "platform"), _AUDIT),
)

_TREE: Final = "tenant.edit"
_HANDS: Final = inside(EDIT) + cover(VIEW)
_GO_ON: Final = (("JOBS_GO_ON", must(("job.view", "here"))), ("QUOTA_STAYS", must(("quota.view", "here"))))
_GO_ALONG: Final = (
    ("JOBS_MOVE", must(("job.view", "here"))),
    ("QUOTA_", must(("quota.view", "root")) + must(("quota.view", "above"))),
)
_FROM_ABOVE: Final = SIGHT + need(_TREE, "above")
TENANTS: Final = (
    api("tenants", "GET", EVERYBODY, VIEW, lists="tenant", listed=SIGHT),
    api(
        "tenants",
        "POST",
        anywhere(_TREE) + see((VIEW, "above")) + need(_TREE, "above"),
        _TREE,
        ok=201,
        body={"parent": "{folder}", "kind": "folder", "name": "Fresh"},
        writes="tenants_tenant",
    ),
    api("tenants/{tenant}", "GET", SIGHT, VIEW),
    api(
        "tenants/{tenant}",
        "PATCH",
        inside(_TREE),
        _TREE,
        body={"name": "Another name"},
        writes="tenants_tenant",
    ),
    api(
        "tenants/{tenant}/move",
        "POST",
        SIGHT + anywhere(_TREE) + see((VIEW, "root")) + need(_TREE, "root") + MOVES,
        " ".join(POINTS),
        body={"parent": "{root}"},
        shows=_GO_ALONG,
        arrange="without-loans",
        writes="tenants_tenant",
    ),
    api(
        "tenants/{tenant}/archive", "POST", _FROM_ABOVE, _TREE, body={}, writes="tenants_tenant", shows=_GO_ON
    ),
    api(
        "tenants/{tenant}/restore",
        "POST",
        _FROM_ABOVE,
        _TREE,
        body={},
        arrange="archived",
        writes="tenants_tenant",
    ),
    api("tenants/{tenant}/members", "GET", SIGHT, VIEW, query="?limit=500", lists="member", listed=SIGHT),
    api(
        "tenants/{tenant}/members",
        "POST",
        _HANDS,
        EDIT,
        ok=201,
        body={"user": "{username}", "role": "{role_name}"},
        writes="tenants_member",
    ),
    api(
        "tenants/{tenant}/members",
        "POST",
        inside(EDIT) + cover(VIEW, "quota.view", "job.view", "job.submit", "job.stop-own"),
        EDIT,
        ok=201,
        body={"user": "{username}", "role": "editor"},
        writes="tenants_member",
        case="as editor",
    ),
    api("tenants/{tenant}/members/{member}", "GET", SIGHT, VIEW),
    api(
        "tenants/{tenant}/members/{member}",
        "PATCH",
        _HANDS,
        EDIT,
        body={"role": "{role_name}"},
        writes="tenants_member",
    ),
    api("tenants/{tenant}/members/{member}", "DELETE", _HANDS, EDIT, ok=204, writes="tenants_member"),
    api(
        "tenants/{tenant}/permissions",
        "GET",
        SIGHT,
        VIEW,
        query="?limit=500",
        shows=(('"platform-hand"', need(EDIT, "platform")),),
    ),
    api("tenants/{tenant}/roles", "GET", SIGHT, VIEW, query="?limit=500", lists="role", listed=SIGHT),
    api(
        "tenants/{tenant}/roles",
        "POST",
        _HANDS,
        EDIT,
        ok=201,
        body={"name": "Helper", "points": [VIEW]},
        writes="tenants_customrole",
    ),
    api(
        "tenants/{tenant}/roles",
        "POST",
        inside(EDIT) + cover("quota.edit"),
        EDIT,
        ok=201,
        body={"name": "Divider", "points": ["quota.edit"]},
        writes="tenants_customrole",
        case="that divides quota",
    ),
    api("tenants/{tenant}/roles/{role}", "GET", SIGHT, VIEW),
    *(
        api(
            "tenants/{tenant}/roles/{role_above}",
            method,
            SIGHT + NOBODY,
            scope,
            body={"description": "Other words"},
            case="of the folder",
        )
        for method, scope in (("GET", VIEW), ("PATCH", EDIT), ("DELETE", EDIT))
    ),
    api(
        "tenants/{tenant}/roles/{role}",
        "PATCH",
        _HANDS,
        EDIT,
        body={"description": "Other words"},
        writes="tenants_customrole",
    ),
    api("tenants/{tenant}/roles/{spare_role}", "DELETE", _HANDS, EDIT, ok=204, writes="tenants_customrole"),
    api("tenants/{tenant}/service-accounts", "GET", inside(EDIT), EDIT, lists="account", listed=need(EDIT)),
    api(
        "tenants/{tenant}/service-accounts",
        "POST",
        inside(EDIT),
        EDIT,
        ok=201,
        body={"name": "fresh"},
        writes="tenants_user",
    ),
    api(
        "tenants/{tenant}/service-accounts/{account}",
        "DELETE",
        inside(EDIT),
        EDIT,
        ok=204,
        writes="tenants_user",
    ),
    api(
        "tenants/{tenant}/service-accounts/{chief}",
        "DELETE",
        inside(EDIT) + _AS_CHIEF,
        EDIT,
        ok=204,
        writes="tenants_user",
        case="with more rights",
    ),
)

_ADMINS: Final = need(EDIT, "platform")
_OVER: Final = _ADMINS + cover(VIEW, place="platform")
ADMIN: Final = (
    api("admin/members", "GET", _ADMINS, VIEW, query="?limit=500"),
    api(
        "admin/members",
        "POST",
        _OVER,
        EDIT,
        ok=201,
        body={"user": "{username}", "role": "{platform_role_name}"},
        writes="tenants_member",
    ),
    api("admin/members/{platform_member}", "GET", _ADMINS, VIEW),
    api(
        "admin/members/{platform_member}",
        "PATCH",
        _OVER,
        EDIT,
        body={"role": "{platform_role_name}"},
        writes="tenants_member",
    ),
    api("admin/members/{platform_member}", "DELETE", _OVER, EDIT, ok=204, writes="tenants_member"),
    api("admin/roles", "GET", _ADMINS, VIEW, query="?limit=500"),
    api(
        "admin/roles",
        "POST",
        _OVER,
        EDIT,
        ok=201,
        body={"name": "Helper", "points": [VIEW]},
        writes="tenants_customrole",
    ),
    api("admin/roles/{platform_role}", "GET", _ADMINS, VIEW),
    api(
        "admin/roles/{platform_role}",
        "PATCH",
        _OVER,
        EDIT,
        body={"description": "Other words"},
        writes="tenants_customrole",
    ),
    api("admin/roles/{spare_platform_role}", "DELETE", _OVER, EDIT, ok=204, writes="tenants_customrole"),
    api("admin/users", "GET", _ADMINS, EDIT, query="?limit=500"),
    api(
        "admin/users",
        "POST",
        _ADMINS,
        EDIT,
        ok=201,
        body={"username": "fresh", "password": "quite another 22"},
        writes="tenants_user",
    ),
    api("admin/users/{user}", "GET", _ADMINS, EDIT),
    api("admin/users/{user}", "PATCH", _OVER, EDIT, body={"is_active": False}, writes="tenants_user"),
    api("admin/users/{user}/unlock", "POST", _OVER, EDIT, ok=204, body={}),
    api(
        "admin/users/{user}/password",
        "POST",
        _OVER,
        EDIT,
        ok=200,
        body={"password": "quite another 22"},
        writes="tenants_user",
    ),
    api(
        "admin/invitations",
        "POST",
        _ADMINS,
        EDIT,
        ok=201,
        body={"username": "fresh"},
        writes="tenants_user",
    ),
    api(
        "admin/users/{invited}/invitation",
        "POST",
        _ADMINS,
        EDIT,
        body={},
        writes="tenants_user",
    ),
    api("admin/users/{user}/end-access", "POST", _OVER, EDIT, body={}, writes="tenants_user"),
    api("admin/groups", "GET", _ADMINS, EDIT, query="?limit=500"),
    api("admin/groups", "POST", _ADMINS, EDIT, ok=201, body={"name": "Fresh"}, writes="tenants_group"),
    api("admin/groups/{group}", "GET", _ADMINS, EDIT),
    api("admin/groups/{group}", "PATCH", _ADMINS, EDIT, body={"name": "Other"}, writes="tenants_group"),
    api("admin/groups/{group}", "DELETE", _ADMINS, EDIT, ok=204, writes="tenants_group"),
    *(
        api(
            f"admin/groups/{{guild}}{tail}",
            method,
            _ADMINS + cover(VIEW, "quota.view", "job.view"),
            EDIT,
            ok=ok,
            body=body,
            writes=writes,
            case="that holds a role",
        )
        for method, tail, ok, body, writes in (
            ("PATCH", "", 200, {"name": "Other"}, "tenants_group"),
            ("DELETE", "", 204, None, "tenants_group"),
            ("POST", "/people", 201, {"username": "{username}"}, "tenants_groupmember"),
            ("DELETE", "/people/{person}", 204, None, "tenants_groupmember"),
        )
    ),
    api(
        "admin/groups",
        "POST",
        _ADMINS + cover(*ALL, place="platform"),
        EDIT,
        ok=201,
        body={"name": "Fresh", "claim": "bosses"},
        writes="tenants_group",
        case="of the provider's admins",
    ),
    api(
        "admin/groups/{group}",
        "PATCH",
        _ADMINS + cover(*ALL, place="platform"),
        EDIT,
        body={"claim": "bosses"},
        writes="tenants_group",
        case="to be the provider's admins",
    ),
    api("admin/groups/{group}/people", "GET", _ADMINS, EDIT),
    api(
        "admin/groups/{group}/people",
        "POST",
        _ADMINS,
        EDIT,
        ok=201,
        body={"username": "{username}"},
        writes="tenants_groupmember",
    ),
    api(
        "admin/groups/{group}/people/{person}", "DELETE", _ADMINS, EDIT, ok=204, writes="tenants_groupmember"
    ),
)

ROWS: Final = (*ME, *WORKSPACES, *TENANTS, *ADMIN)
