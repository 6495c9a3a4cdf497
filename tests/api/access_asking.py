"""Who may do what with requests, loans, budgets and limits of users: a part of the access matrix.

Statuses in the order of `WHO`. The ids of the table belong to nothing, so that who may ask gets 404.
"""

from __future__ import annotations

from typing import Any, Final

from tests.api.access_tenancy import NOWHERE

VALUES: Final = {"quota_request": NOWHERE, "override": NOWHERE, "budget": NOWHERE, "limit": NOWHERE}

_EVERYBODY: Final = (401, 200, 200, 200, 200, 200)
_MEMBERS: Final = (401, 404, 200, 200, 200, 200)
_GONE: Final = (401, 404, 404, 404, 404, 404)

ASKING: Final[dict[tuple[str, str], tuple[int, ...]]] = {
    ("workspaces/{ws}/quota-requests", "GET"): _MEMBERS,
    # The body asks for no more than there is, which only who may ask at all is told.
    ("workspaces/{ws}/quota-requests", "POST"): (401, 404, 403, 400, 400, 400),
    ("workspaces/{ws}/quota-requests/{quota_request}", "GET"): _GONE,
    ("workspaces/{ws}/quota-requests/{quota_request}/withdraw", "POST"): _GONE,
    ("workspaces/{ws}/quota-requests/{quota_request}/accept", "POST"): _GONE,
    ("workspaces/{ws}/quota-requests/{quota_request}/decline", "POST"): _GONE,
    ("admin/quota-requests", "GET"): _EVERYBODY,
    ("admin/quota-requests", "POST"): (401, 404, 403, 404, 404, 404),
    ("admin/quota-requests/{quota_request}/withdraw", "POST"): _GONE,
    ("admin/quota-requests/{quota_request}/accept", "POST"): _GONE,
    ("admin/quota-requests/{quota_request}/decline", "POST"): _GONE,
    ("admin/quota-requests/{quota_request}", "GET"): _GONE,
    ("admin/quota-requests/{quota_request}/approve", "POST"): _GONE,
    ("admin/quota-requests/{quota_request}/reject", "POST"): _GONE,
    ("admin/quota-requests/{quota_request}/counter", "POST"): _GONE,
    ("admin/overrides", "GET"): _EVERYBODY,
    ("admin/overrides", "POST"): (401, 404, 403, 403, 404, 404),
    ("admin/overrides/{override}", "GET"): _GONE,
    ("admin/overrides/{override}", "PATCH"): _GONE,
    ("admin/overrides/{override}/end", "POST"): _GONE,
    ("workspaces/{ws}/budget", "GET"): _MEMBERS,
    ("workspaces/{ws}/usage", "GET"): _MEMBERS,
    ("admin/budgets", "GET"): _EVERYBODY,
    ("admin/budgets", "POST"): (401, 404, 403, 403, 403, 400),
    ("admin/budgets/{budget}", "GET"): _GONE,
    ("admin/budgets/{budget}", "PATCH"): _GONE,
    ("admin/budgets/{budget}", "DELETE"): _GONE,
    ("workspaces/{ws}/user-limits", "GET"): _MEMBERS,
    ("workspaces/{ws}/user-limits", "POST"): (401, 404, 403, 403, 400, 400),
    ("workspaces/{ws}/user-limits/{limit}", "GET"): _GONE,
    ("workspaces/{ws}/user-limits/{limit}", "PATCH"): _GONE,
    ("workspaces/{ws}/user-limits/{limit}", "DELETE"): _GONE,
}
_CARDS: Final = {"flavor": "a100", "resource": "gpu.cards"}
BODIES: Final[dict[str, dict[str, Any]]] = {
    "workspaces/{ws}/quota-requests": {"amounts": [{**_CARDS, "nominal": 1}], "reason": "more"},
    "workspaces/{ws}/quota-requests/{quota_request}/withdraw": {},
    "workspaces/{ws}/quota-requests/{quota_request}/accept": {},
    "workspaces/{ws}/quota-requests/{quota_request}/decline": {},
    "admin/quota-requests": {"node": NOWHERE, "amounts": [{**_CARDS, "nominal": 1}], "reason": "more"},
    "admin/quota-requests/{quota_request}/withdraw": {},
    "admin/quota-requests/{quota_request}/accept": {},
    "admin/quota-requests/{quota_request}/decline": {},
    "admin/quota-requests/{quota_request}/approve": {},
    "admin/quota-requests/{quota_request}/reject": {"answer": "no"},
    "admin/quota-requests/{quota_request}/counter": {"offer": [{**_CARDS, "nominal": 1}]},
    "admin/overrides": {
        "lender": NOWHERE,
        "borrower": NOWHERE,
        "amounts": [{**_CARDS, "amount": 1}],
        "ends_at": "2999-01-01T00:00:00Z",
    },
    "admin/overrides/{override}": {"ends_at": "2999-01-01T00:00:00Z"},
    "admin/overrides/{override}/end": {},
    # A threshold twice: nothing is made, so that every actor finds the same.
    "admin/budgets": {"tenant": "team-a", "gpu_hours": 10, "thresholds": [50, 50]},
    "admin/budgets/{budget}": {"gpu_hours": 10},
    "workspaces/{ws}/user-limits": {"resource": "gpu.cards", "amount": None},
    "workspaces/{ws}/user-limits/{limit}": {"amount": 4},
}
