"""The addresses of all lists: those of the console are listed here, those of the REST API come from its
schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

SCHEMA: Final = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"
_NOT_ROWS: Final = ("/events/stream", "/logs", "/stream", "/user-limits/{limit}")
"""Addresses that are not lists, never end, or don't read the database."""
_LAST: Final = "page=99999"
_NAMES: Final = ("name", "slug", "username", "subject_name", "tenant")


@dataclass(frozen=True, slots=True)
class ListPlace:
    """The address of a list or a page, with `{}` for names of the world, and queries for it.

    The queries are requested in addition to the address itself. A page is not a list: it shows parts of
    several.
    """

    path: str
    queries: tuple[str, ...] = ()
    is_page: bool = False

    @property
    def is_api(self) -> bool:
        return self.path.startswith("/api/")


CONSOLE: Final = (
    ListPlace(
        "/w/{ws}/jobs?who=all",
        (
            *(_LAST, "sort=name", "sort=-priority", "sort=state", "state=waiting", "state=running"),
            *("q=llama", "filterBy=submitted_by==team-0000-1", "part=rows"),
        ),
    ),
    ListPlace("/w/{ws}/notebooks", (_LAST, "state=all", f"state=all&{_LAST}", "state=all&sort=name")),
    ListPlace(
        "/ops/jobs",
        (
            *(_LAST, f"state=all&{_LAST}", "state=all", "state=all&page=2500", "state=waiting", "part=rows"),
            *("sort=name", "sort=-priority", "state=all&sort=name", "state=all&sort=-state"),
            *("tenant=department-00", "state=all&tenant=department-00", "q=llama", "state=all&q=llama-1f"),
            *("state=all&filterBy=submitted_by==team-0000-1", "state=all&filterBy=workspace==team-0000"),
            *("cluster=bench", "state=all&pool=a100", "gpu_model=A100-40G", "range=24h"),
        ),
    ),
    ListPlace("/ops/nodes", (_LAST, "sort=-fraction", "sort=memory", "filterBy=name=@12", "part=rows")),
    ListPlace("/ops/flavors", ("sort=-model", "filterBy=name=@a100", "part=rows")),
    ListPlace("/ops/gpus", (_LAST, "sort=allocated", "sort=-memory", "filterBy=node=@12", "part=rows")),
    ListPlace("/ops/queues", (_LAST, "sort=name", "filterBy=workspace=@12", "part=rows")),
    ListPlace("/ops/users", (_LAST, "sort=-last_login", "q=team-01", "part=rows")),
    ListPlace("/ops/groups", (_LAST, "sort=-size", "filterBy=name=@12")),
    ListPlace("/ops/groups/{group}"),
    ListPlace("/ops/tenants", (_LAST, "sort=-created_at", "filterBy=name=@12", "q=team-01", "part=rows")),
    ListPlace("/ops/tenants/{tenant}"),
    ListPlace("/ops/tenants/{tenant}/members"),
    ListPlace("/ops/alerts", (_LAST, "sort=rule_name", "state=resolved", "filterBy=rule_name=@pend")),
    ListPlace("/ops/alerts/rules", (_LAST, "sort=-firing", "edit=new")),
    ListPlace("/ops/alerts/channels", (_LAST, "sort=-unsent")),
    ListPlace("/ops/alerts/silences", (_LAST, "sort=ends_at", "edit=new")),
    ListPlace("/ops/requests", (_LAST, "sort=by", "state=all", f"state=all&{_LAST}", "filterBy=by=@12")),
    ListPlace("/ops/loans"),
    ListPlace("/ops/budgets", (_LAST, "sort=-percent", "filterBy=name=@12", "edit=new")),
    ListPlace("/ops/policies", (_LAST, "own=1", "filterBy=name=@12")),
    ListPlace("/ops/priorities"),
    ListPlace("/ops/priorities/grants", (_LAST, "sort=-value", "edit=new")),
    ListPlace("/ops/prices", (_LAST, "filterBy=state==current")),
    ListPlace("/ops/roles"),
    ListPlace("/ops/cells"),
    ListPlace("/ops/clusters"),
    ListPlace("/ops/sources"),
    ListPlace("/ops/sources/agents", (_LAST, "sort=node")),
    ListPlace("/ops/replays", (_LAST, "sort=name")),
    ListPlace("/ops/audit", ("filterBy=actor=@team-01", "filterBy=action==quota.set")),
    ListPlace("/ops/reports"),
    ListPlace("/ops/reports/preemptions"),
    ListPlace("/search?q=team-01"),
    ListPlace("/people?q=team-01"),
    ListPlace("/account/keys"),
    ListPlace("/messages", (_LAST, "state=all")),
    ListPlace("/w/{ws}/members", ("sort=name",)),
    ListPlace("/w/{ws}/members/permissions"),
    ListPlace("/w/{ws}/job-templates"),
    ListPlace("/w/{ws}/requests", (_LAST, "sort=by")),
    ListPlace("/w/{ws}/limits"),
    ListPlace("/w/{ws}/usage"),
    ListPlace("/w/{ws}/usage/preemptions"),
    ListPlace("/w/{ws}/alerts", (_LAST, "sort=rule_name")),
    ListPlace("/w/{ws}/alerts/rules"),
    ListPlace("/w/{ws}/alerts/channels"),
    ListPlace("/w/{ws}/alerts/silences"),
    ListPlace("/w/{ws}/audit"),
    ListPlace("/w/{ws}/keys"),
    ListPlace("/w/{ws}/keys/accounts"),
    *(
        ListPlace(path, is_page=True)
        for path in (
            *("/ops/overview", "/ops/overview/live", "/ops/quotas", "/ops/quotas/tree", "/ops/quotas/charts"),
            "/ops/efficiency",
            *("/ops/nodes/{name}", "/ops/gpus/{uuid}", "/w/{ws}/overview", "/w/{ws}/overview/live"),
            *("/ops/queues/{ws}/queue-0", "/ops/queues/{ws}/queue-0/live"),
            "/ops/queues/{ws}/queue-0/charts/waits?range=30d",
            *("/w/{ws}/quota", "/w/{ws}/jobs/{job}", "/w/{ws}/jobs/new", "/w/{ws}/policy"),
        )
    ),
)
"""Lists of the console, and its heaviest pages."""


def api_lists(names: Mapping[str, str]) -> Iterator[ListPlace]:
    """Yield the lists of the REST API for whose parameters the world has names."""
    schema = yaml.load(SCHEMA.read_text(encoding="utf-8"), yaml.CSafeLoader)
    for path, methods in schema["paths"].items():
        asked = {p["name"]: p for p in methods.get("get", {}).get("parameters", ()) if p["in"] == "query"}
        if "limit" not in asked or path.endswith(_NOT_ROWS):
            continue
        if all(p["name"] in names for p in methods["get"]["parameters"] if p["in"] == "path"):
            yield ListPlace(path, tuple(_queries(asked)))


def _queries(asked: Mapping[str, Any]) -> Iterator[str]:
    orders = asked["sort"]["schema"]["enum"] if "sort" in asked else ()
    if orders:
        yield from (f"sort={order}" for order in (orders[0], orders[len(orders) // 2 - 1]))
    if "filterBy" in asked:
        yield from (f"filterBy={name}=@1" for name in [name for name in _NAMES if name in asked][:1])
