"""Quotas, queues, requests, loans, budgets and limits, by the REST API."""

from __future__ import annotations

from typing import Final

from tests.access.actors import VIEW
from tests.access.rows_tenancy import api
from tests.access.table import EVERYBODY, NOT_SO, SIGHT, Clause, anywhere, cover, inside, must, need, see

VIEWS: Final = "quota.view"
EDITS: Final = "quota.edit"
_QUEUE: Final = "queue.edit"
_ASKS: Final = "job.submit"
_SEEN: Final = see((VIEWS, "here"))
_READ: Final = inside(VIEWS)
_ABOVE: Final = must((EDITS, "above"))
CARDS: Final = {"flavor": "a100", "resource": "gpu.cards"}
ONE_MORE: Final = [{**CARDS, "nominal": 15}]

QUEUES: Final = (
    api("workspaces/{ws}/queues", "GET", _READ, VIEWS, lists="queue", listed=need(VIEWS)),
    api(
        "workspaces/{ws}/queues",
        "POST",
        SIGHT + need(_QUEUE) + need(EDITS) + need(VIEWS),
        _QUEUE,
        ok=201,
        body={"name": "second", "flavors": ["a100"]},
        writes="quotas_queue",
    ),
    api("workspaces/{ws}/queues/{queue}", "GET", _READ, VIEWS),
    api(
        "workspaces/{ws}/queues/{queue}",
        "PATCH",
        _READ + need(_QUEUE),
        _QUEUE,
        body={"name": "renamed"},
        writes="quotas_queue",
        case="name",
    ),
    api(
        "workspaces/{ws}/queues/{queue}",
        "PATCH",
        _READ + need(_QUEUE),
        _QUEUE,
        body={"stop_policy": "hold"},
        writes="quotas_queue",
    ),
    api(
        "workspaces/{ws}/queues/{queue}",
        "PATCH",
        _READ + need(_QUEUE) + must((_QUEUE, "above")),
        _QUEUE,
        body={"while_borrowing": "any"},
        writes="quotas_queue",
        case="pushes out higher priorities",
    ),
    api(
        "workspaces/{ws}/queues/{spare_queue}",
        "DELETE",
        _READ + need(_QUEUE) + must(("job.stop-any", "here")),
        _QUEUE,
        ok=204,
        query="?move_to={queue}",
        arrange="waits-in-spare",
        writes="quotas_queue",
        case="moving its jobs",
    ),
    api(
        "workspaces/{ws}/queues/{spare_queue}",
        "DELETE",
        _READ + need(_QUEUE),
        _QUEUE,
        ok=204,
        writes="quotas_queue",
    ),
    api(
        "workspaces/{ws}/queues/{queue}/preset",
        "POST",
        _READ + need(_QUEUE),
        _QUEUE,
        body={"preset": "deterministic"},
        writes="quotas_queue",
    ),
    api("workspaces/{ws}/quota", "GET", _READ, VIEWS),
    api("workspaces/{ws}/quota/forecast", "GET", _READ, VIEWS),
)

_TEAM: Final = ("tenant.edit", VIEWS, EDITS, _QUEUE, "member.edit")
TEAMS: Final = (
    api(
        "admin/teams",
        "POST",
        anywhere("tenant.edit")
        + see((VIEW, "above"))
        + tuple(
            clause
            for point in (VIEWS, "tenant.edit", EDITS, _QUEUE, "member.edit")
            for clause in need(point, "above")
        )
        + cover(VIEW, VIEWS, "job.view", place="above"),
        " ".join(_TEAM),
        ok=201,
        body={
            "parent": "{folder}",
            "name": "Fresh",
            "members": [{"username": "{username}", "role": "viewer"}],
            "pools": [{"flavor": "a100", "gpus": 0}],
        },
        writes="tenants_tenant",
        has_dry_run=False,
    ),
)

QUOTAS: Final = (
    api("admin/quotas", "GET", EVERYBODY, VIEWS, query="?limit=500", lists="node", listed=need(VIEWS)),
    api("admin/quotas/{node}", "GET", need(VIEWS), VIEWS),
    api(
        "admin/quotas/{node}",
        "PATCH",
        need(VIEWS) + _ABOVE,
        EDITS,
        body={"amounts": [{**CARDS, "nominal": 14}]},
        writes="quotas_quota",
        case="of a workspace",
    ),
    api(
        # The answer names the user who decides about the node to those who may see that user.
        "admin/quotas/{above_node}",
        "PATCH",
        need(VIEWS, "above") + must((EDITS, "root")),
        EDITS,
        body={"amounts": [{**CARDS, "nominal": 17}]},
        writes="quotas_quota",
        case="of a folder",
    ),
    api(
        "admin/quotas/{leaf}",
        "PATCH",
        need(VIEWS) + must((EDITS, "here")),
        EDITS,
        body={"amounts": [{**CARDS, "nominal": 7}]},
        writes="quotas_quota",
        case="of a queue",
    ),
    api(
        "admin/quotas/{leaf}",
        "PATCH",
        need(VIEWS) + _ABOVE,
        EDITS,
        body={"amounts": [{**CARDS, "borrowing_limit": 2}]},
        writes="quotas_quota",
        case="what a queue borrows",
    ),
    api(
        "admin/quotas/{node}",
        "PATCH",
        need(VIEWS) + must((EDITS, "platform")),
        EDITS,
        body={"amounts": [{**CARDS, "nominal": 99}], "on_top": True},
        writes="quotas_quota",
        case="on top",
    ),
    api(
        # A job that would be evicted is named to those who may see it; for others it is only counted.
        "admin/quotas/{leaf}",
        "PATCH",
        need(VIEWS) + must((EDITS, "here")),
        EDITS,
        query="?dry_run=true",
        body={"amounts": [{**CARDS, "nominal": 0}], "shrink": "drain"},
        shows=(("serve-{ws}", must(("job.view", "here"))),),
        has_dry_run=False,
        case="to see who would leave",
    ),
    api("admin/quotas/{node}/history", "GET", need(VIEWS), VIEWS),
    api(
        "admin/quota-revisions/{revision}/revert",
        "POST",
        see((VIEWS, "here")) + _ABOVE,
        EDITS,
        ok=201,
        body={},
        writes="quotas_quota",
        has_dry_run=False,
    ),
    api(
        "admin/quota-revisions/{on_top}/revert",
        "POST",
        see((VIEWS, "here")) + must((EDITS, "platform")),
        EDITS,
        ok=201,
        body={},
        writes="quotas_quota",
        has_dry_run=False,
        case="that made quota",
    ),
    api("admin/quota-file", "GET", EVERYBODY, VIEWS, lists="file_line", listed=need(VIEWS)),
    api("admin/quota-file", "GET", need(VIEWS), VIEWS, query="?tenant={ws}", case="of a tenant"),
    api(
        # A tenant that the user may not see is an error in the file.
        "admin/quota-file",
        "POST",
        (*anywhere(EDITS), Clause(400, ((VIEW, "here"),)), *need(VIEWS), *_ABOVE),
        EDITS,
        body="tenant,flavor,resource,nominal\n{ws},a100,gpu.cards,14\n",
        media="text/csv",
        writes="quotas_quota",
    ),
)

_REQUEST: Final = "quota-requests/{quota_request}"
_AMOUNTS: Final = {"amounts": ONE_MORE, "reason": "a paper is due"}
REQUESTS: Final = (
    api("workspaces/{ws}/quota-requests", "GET", _READ, VIEWS, lists="quota_request", listed=need(VIEWS)),
    api(
        "workspaces/{ws}/quota-requests",
        "POST",
        _READ + must((_ASKS, "here")),
        _ASKS,
        ok=201,
        body=_AMOUNTS,
        writes="quotas_quotarequest",
    ),
    api(f"workspaces/{{ws}}/{_REQUEST}", "GET", _READ, VIEWS),
    api(
        f"workspaces/{{ws}}/{_REQUEST}/withdraw",
        "POST",
        _READ + must((EDITS, "here")),
        _ASKS,
        body={},
        writes="quotas_quotarequest",
    ),
    api(
        f"workspaces/{{ws}}/{_REQUEST}/withdraw",
        "POST",
        _READ,
        _ASKS,
        body={},
        arrange="own-request",
        writes="quotas_quotarequest",
        case="one's own",
    ),
    *(
        api(
            f"{place}/{_REQUEST}/{verb}",
            "POST",
            wanted + refused,
            _ASKS,
            body={},
            arrange=arrange,
            writes="quotas_quotarequest",
            case=case,
        )
        for place, wanted in (("workspaces/{ws}", _READ), ("admin", _SEEN))
        for verb in ("accept", "decline")
        for arrange, refused, case in (("offered", must(), "of another"), ("own-offer", (), "one's own"))
    ),
    api(
        # The offer of a user whose account was closed no longer exists.
        f"admin/{_REQUEST}/accept",
        "POST",
        _SEEN,
        _ASKS,
        ok=422,
        body={},
        arrange="offer-of-closed",
        has_dry_run=False,
        case="of a closed account",
    ),
    api(
        "admin/quota-requests",
        "GET",
        EVERYBODY,
        VIEWS,
        query="?limit=500",
        lists="quota_request",
        listed=_SEEN,
    ),
    api(
        "admin/quota-requests",
        "POST",
        anywhere(_ASKS) + need(VIEWS) + need(_ASKS),
        _ASKS,
        ok=201,
        body={"node": "{node}", **_AMOUNTS},
        writes="quotas_quotarequest",
    ),
    api(f"admin/{_REQUEST}", "GET", _SEEN, VIEWS),
    api(f"admin/{_REQUEST}/lacks", "GET", _SEEN + _ABOVE, EDITS),
    api(
        f"admin/{_REQUEST}/withdraw",
        "POST",
        _SEEN + must((EDITS, "here")),
        _ASKS,
        body={},
        writes="quotas_quotarequest",
    ),
    api(f"admin/{_REQUEST}/approve", "POST", _SEEN + _ABOVE, EDITS, body={}, writes="quotas_quota"),
    api(
        f"admin/{_REQUEST}/reject",
        "POST",
        _SEEN + _ABOVE,
        EDITS,
        body={"answer": "no"},
        writes="quotas_quotarequest",
    ),
    api(
        f"admin/{_REQUEST}/counter",
        "POST",
        _SEEN + _ABOVE,
        EDITS,
        body={"offer": ONE_MORE},
        writes="quotas_quotarequest",
    ),
)

_EITHER: Final = see((VIEWS, "here"), (VIEWS, "above"))
_BOTH: Final = need(VIEWS, "above") + need(VIEWS)
_UNTIL: Final = {"ends_at": "{soon}"}
LOANS: Final = (
    api("admin/overrides", "GET", EVERYBODY, VIEWS, query="?limit=500", lists="override", listed=_EITHER),
    api(
        "admin/overrides",
        "POST",
        anywhere(EDITS) + _BOTH + _ABOVE,
        EDITS,
        ok=201,
        writes="quotas_override",
        body={"lender": "{above_node}", "borrower": "{node}", "amounts": [{**CARDS, "amount": 1}], **_UNTIL},
    ),
    api(
        "admin/overrides",
        "POST",
        anywhere(EDITS) + need(VIEWS) + need(VIEWS, "other") + must((EDITS, "root")),
        EDITS,
        ok=201,
        writes="quotas_override",
        case="from one folder to another",
        body={"lender": "{node}", "borrower": "{other.node}", "amounts": [{**CARDS, "amount": 1}], **_UNTIL},
    ),
    api("admin/overrides/{override}", "GET", _EITHER, VIEWS),
    api(
        "admin/overrides/{override}",
        "PATCH",
        _EITHER + anywhere(EDITS) + _BOTH + _ABOVE,
        EDITS,
        body=_UNTIL,
        writes="quotas_override",
    ),
    api(
        "admin/overrides/{override}/end",
        "POST",
        _EITHER + anywhere(EDITS) + _BOTH + _ABOVE,
        EDITS,
        body={},
        writes="quotas_override",
    ),
)

_BUDGET: Final = need(VIEWS) + _ABOVE
LIMITS: Final = (
    api("workspaces/{ws}/budget", "GET", _READ, VIEWS, lists="budget", listed=need(VIEWS)),
    api("workspaces/{ws}/usage", "GET", _READ, VIEWS),
    api("admin/budgets", "GET", EVERYBODY, VIEWS, query="?limit=500", lists="budget", listed=_SEEN),
    api(
        "admin/budgets",
        "POST",
        anywhere(EDITS) + _BUDGET,
        EDITS,
        ok=201,
        writes="quotas_budget",
        body={"tenant": "{ws}", "flavor": "a100", "gpu_hours": 10},
    ),
    api("admin/budgets/{budget}", "GET", need(VIEWS), VIEWS),
    api("admin/budgets/{budget}", "PATCH", _BUDGET, EDITS, body={"gpu_hours": 11}, writes="quotas_budget"),
    api("admin/budgets/{budget}", "DELETE", _BUDGET, EDITS, ok=204, writes="quotas_budget"),
    api("workspaces/{ws}/user-limits", "GET", _READ, VIEWS, lists="limit", listed=need(VIEWS)),
    api(
        "workspaces/{ws}/user-limits",
        "POST",
        SIGHT + need(EDITS),
        EDITS,
        ok=201,
        body={"resource": "gpu.cores", "amount": 4},
        writes="quotas_userlimit",
    ),
    api(
        # A user without a role in the workspace is an error in the body.
        "workspaces/{ws}/user-limits",
        "POST",
        SIGHT + need(EDITS) + NOT_SO,
        EDITS,
        ok=400,
        body={"user": "{username}", "resource": "gpu.cores", "amount": 4},
        case="of a stranger",
    ),
    api("workspaces/{ws}/user-limits/{limit}", "GET", _READ, VIEWS),
    api(
        "workspaces/{ws}/user-limits/{limit}",
        "PATCH",
        _READ + need(EDITS),
        EDITS,
        body={"amount": 5},
        writes="quotas_userlimit",
    ),
    api(
        "workspaces/{ws}/user-limits/{limit}",
        "DELETE",
        _READ + need(EDITS),
        EDITS,
        ok=204,
        writes="quotas_userlimit",
    ),
)

ROWS: Final = (*QUEUES, *TEAMS, *QUOTAS, *REQUESTS, *LOANS, *LIMITS)
