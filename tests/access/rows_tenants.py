"""The console's pages of tenants, their members and roles, and of new teams."""

from __future__ import annotations

from typing import Final

from tests.access.actors import VIEW
from tests.access.rows_pages import ABOVE, EDIT, JOB, OPERATES, QUOTA, form, listing, page
from tests.access.rows_tenancy import MOVES
from tests.access.table import EVERYBODY, SIGHT, cover, inside, must, need, see

_EDITS: Final = "quota.edit"
_READS: Final = need(QUOTA)
_TREE: Final = "tenant.edit"
_ONE_TENANT: Final = "ops/tenants/{tenant}"
_FROM_ABOVE: Final = SIGHT + need(_TREE, "above")
_VERSION: Final = {"version": "{tenant.version}"}
_HANDS: Final = inside(EDIT) + cover(VIEW)
_MEMBERS: Final = f"{_ONE_TENANT}/members"
TENANTS: Final = (
    *listing(
        "ops/tenants",
        EVERYBODY,
        lists="ws",
        listed=SIGHT,
        shows=(
            ("Operations</a>", OPERATES),
            ('href="/ops/overview"', must(("cluster.view", "platform"))),
            ('href="/ops/jobs"', must(*ABOVE)),
            ('class="side-count"', _READS + must((_EDITS, "above"))),
            ('value="archive {tenant}"', SIGHT + must((_TREE, "above"))),
        ),
    ),
    form(
        "ops/tenants",
        SIGHT + must((_TREE, "above")),
        "tenants_tenant",
        body={"do": "archive", "item": "{tenant}", "confirmed": "1"},
    ),
    page(
        _ONE_TENANT,
        SIGHT,
        shows=(
            ('value="rename"', must((_TREE, "here"))),
            ('id="archive"', must((_TREE, "above"))),
            ("{tenant}/requests", must((QUOTA, "here"))),
            ("/ops/jobs?tenant={ws}", must((JOB, "here")) + must(*ABOVE)),
            ('name="to"', must((_TREE, "root"))),
            (
                '<option value="{other.folder}">',
                must((_TREE, "above")) + must((_TREE, "elsewhere")) + must((VIEW, "elsewhere")),
            ),
        ),
    ),
    *listing(
        _MEMBERS,
        SIGHT,
        by="filterBy=name=@mia",
        lists="member_name",
        listed=SIGHT,
        shows=(("edit=new", must((EDIT, "here"))),),
    ),
    *listing(
        f"{_MEMBERS}/permissions", SIGHT, by="filterBy=username=@mia", lists="member_name", listed=SIGHT
    ),
    form(_MEMBERS, _HANDS, "tenants_member", body={"do": "add", "name": "{username}", "role": "{role_name}"}),
    page(
        "ops/tenants/{folder}",
        see((VIEW, "above")),
        case="of a folder",
        shows=(("edit=new", must((_TREE, "above"))),),
    ),
    page(
        _ONE_TENANT,
        SIGHT + see((VIEW, "root")) + need(_TREE, "root") + MOVES,
        query="?to={root}",
        case="to move",
    ),
    form(
        "ops/tenants/{folder}",
        see((VIEW, "above")) + need(_TREE, "above"),
        "tenants_tenant",
        body={"do": "new", "name": "Fresh", "kind": "folder"},
    ),
    form(_ONE_TENANT, inside(_TREE), "tenants_tenant", body={"do": "rename", "name": "Another", **_VERSION}),
    form(
        _ONE_TENANT,
        SIGHT + see((VIEW, "root")) + need(_TREE, "root") + MOVES,
        "tenants_tenant",
        arrange="without-loans",
        body={"do": "move", "to": "{root}", **_VERSION},
    ),
    form(_ONE_TENANT, _FROM_ABOVE, "tenants_tenant", body={"do": "archive", **_VERSION}),
    form(
        _ONE_TENANT,
        _FROM_ABOVE,
        "tenants_tenant",
        arrange="archived",
        body={"do": "restore", "version": "{tenant.archived}"},
    ),
    *listing(f"{_ONE_TENANT}/roles", inside(EDIT), lists="role_name", listed=need(EDIT)),
    form(
        f"{_ONE_TENANT}/roles",
        _HANDS,
        "tenants_customrole",
        "make",
        body={"name": "Helper", "points": [VIEW]},
    ),
    form(
        f"{_ONE_TENANT}/roles",
        _HANDS,
        "tenants_customrole",
        "change",
        body={"row": "{role}", "name": "Other", "points": [VIEW], "version": "{role.version}"},
    ),
    form(
        f"{_ONE_TENANT}/roles",
        _HANDS,
        "tenants_customrole",
        body={"do": "remove", "item": "{spare_role}", "confirmed": "1"},
    ),
)

_TEAM: Final = see((VIEW, "above")) + tuple(
    clause for point in (QUOTA, _TREE, _EDITS, "queue.edit", EDIT) for clause in need(point, "above")
)
_TEAM_TYPED: Final = {
    "do": "create",
    "parent": "{folder}",
    "name": "Fresh",
    "people": "1",
    "p0-username": "{username}",
    "p0-role": "viewer",
    "pool.sim.a100-gpus": "0",
    "queue": "default",
    "preset": "balanced",
}
TEAMS: Final = (
    page("ops/teams/new", _TEAM, query="?parent={folder}"),
    form(
        "ops/teams/new",
        _TEAM + cover(VIEW, QUOTA, "job.view", place="above"),
        "tenants_tenant",
        quiet=False,
        body=_TEAM_TYPED,
    ),
    form("ops/teams/new/check", _TEAM, "", "check", ok=200, quiet=False, body=_TEAM_TYPED),
)

ROWS: Final = (*TENANTS, *TEAMS)
