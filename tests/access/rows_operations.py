"""The console's pages of operators and of users with a role above workspaces."""

from __future__ import annotations

from typing import Final

from tests.access.actors import VIEW
from tests.access.rows_pages import ABOVE, EDIT, GPU_CARDS, JOB, QUOTA, form, listing, page
from tests.access.table import EVERYBODY, SIGHT, cover, inside, must, need, see

_EDITS: Final = "quota.edit"
_READS: Final = need(QUOTA)
_ABOVE: Final = must((_EDITS, "above"))
_QUOTAS: Final = "ops/quotas/{node}/{flavor}"
_TYPED: Final = {
    "**": "{node.boxes}",
    "gpu.cards.nominal": "14",
    "tenant": "{folder_slug}",
    "version": "{node.version}",
    "shrink": "let-run",
}
_IN_TREE: Final = see((QUOTA, "anywhere")) + _READS + _ABOVE
_BATCH: Final = {"**": "{node.batch}", "shrink": "let_run"}
QUOTAS: Final = (
    page(
        "ops/quotas",
        _READS,
        query="?tenant={ws}",
        case="of a workspace",
        lists="revision_reason",
        listed=_READS,
        shows=(
            ("revert-{revision}", must((_EDITS, "above"))),
            ("edit={node}", must((_EDITS, "above"))),
            ("edit={leaf}", must((_EDITS, "here"))),
        ),
    ),
    page(
        "ops/quotas/tree",
        EVERYBODY,
        shows=(('data-node="{node}"', see((QUOTA, "here"))), ("edit={node}", _READS + _ABOVE)),
    ),
    page("ops/quotas/charts", EVERYBODY, shows=(("{node}", see((QUOTA, "here"))),)),
    page(
        "ops/quotas/tree/rows/{node}",
        see((QUOTA, "here")),
        query="?pool={flavor}",
        shows=(('data-node="{leaf}"', see((QUOTA, "here"))), ("edit={leaf}", must((_EDITS, "here")))),
    ),
    form("ops/quotas/tree/{flavor}/check", _IN_TREE, "", "check", ok=200, body=_BATCH),
    form("ops/quotas/tree/{flavor}/save", _IN_TREE, "quotas_quota", "save", quiet=False, body=_BATCH),
    page("ops/quotas/import", EVERYBODY),
    form(
        "ops/quotas/import",
        see((VIEW, "here")) + _READS + _ABOVE,
        "quotas_quota",
        body={
            "do": "apply",
            "kind": "csv",
            "text": "tenant,flavor,resource,nominal\n{ws},a100,gpu.cards,14\n",
        },
    ),
    form(_QUOTAS, _READS + need(QUOTA, "above") + _ABOVE, "quotas_quota", "save", quiet=False, body=_TYPED),
    form(f"{_QUOTAS}/check", _READS + _ABOVE, "", "check", ok=200, body=_TYPED),
    form(
        "ops/quotas/revisions/{revision}/revert",
        see((QUOTA, "here")) + _ABOVE,
        "quotas_quota",
        "revert",
        body={"next": "/"},
    ),
)

_ONE: Final = "ops/requests/{quota_request}"
_SEEN: Final = see((QUOTA, "here"))
_DECIDE: Final = 'value="approve"'
_EITHER: Final = see((QUOTA, "here"), (QUOTA, "above"))
_BOTH: Final = need(QUOTA, "above") + need(QUOTA)
_BUDGET: Final = {"gpu_hours": "11", "action": "warn", "thresholds": "50"}
ASKING: Final = (
    page("ops/requests", EVERYBODY, lists="quota_request", listed=_SEEN),
    page("ops/requests", EVERYBODY, query="?part=rows", case="rows", lists="quota_request", listed=_SEEN),
    page("ops/requests", EVERYBODY, query="?format=csv", case="file", lists="wish", listed=_SEEN),
    page(_ONE, _SEEN + _READS, shows=((_DECIDE, must((_EDITS, "above"))),)),
    form(_ONE, _SEEN + _ABOVE, "quotas_quota", body={"do": "approve"}, quiet=False),
    form(_ONE, _SEEN + _ABOVE, "quotas_quota", body={"do": "raise-approve"}, quiet=False),
    form(_ONE, _SEEN + _ABOVE, "quotas_quotarequest", body={"do": "reject", "answer": "no"}, quiet=False),
    form(
        _ONE,
        _SEEN + _READS + _ABOVE,
        "quotas_quotarequest",
        quiet=False,
        body={"do": "counter", "**": "{node.boxes}", "gpu.cards.nominal": "15"},
    ),
    page(f"{_ONE}/effect", _SEEN),
    page("ops/loans", EVERYBODY, lists="loan", listed=_EITHER),
    form(
        "ops/loans",
        _BOTH + _ABOVE,
        "quotas_override",
        "lend",
        body={
            "lender": "{folder_slug}",
            "borrower": "{ws}",
            "pool": "{flavor}",
            "gpus": "1",
            "ends_at": "{soon_typed}",
        },
    ),
    form(
        "ops/loans",
        _EITHER + _BOTH + _ABOVE,
        "quotas_override",
        body={"do": "end", "request": "{override}", "version": "{override.version}"},
    ),
    form(
        "ops/loans",
        _EITHER + _BOTH + _ABOVE,
        "quotas_override",
        body={
            "do": "move",
            "request": "{override}",
            "version": "{override.version}",
            "ends_at": "{soon_typed}",
        },
    ),
    page("ops/budgets", EVERYBODY, lists="budget_hours", listed=_SEEN),
    page("ops/budgets", EVERYBODY, query="?part=rows", case="rows", lists="budget_hours", listed=_SEEN),
    page("ops/budgets", EVERYBODY, query="?format=csv", case="as a file"),
    form(
        "ops/budgets",
        see((VIEW, "here")) + _READS + _ABOVE,
        "quotas_budget",
        body={"do": "set", "tenant": "{tenant}", "flavor": "{flavor}", **_BUDGET},
    ),
    form(
        "ops/budgets",
        _READS + _ABOVE,
        "quotas_budget",
        body={"do": "change", "row": "{budget}", "version": "{budget.version}", **_BUDGET},
    ),
    form(
        "ops/budgets",
        _READS + _ABOVE,
        "quotas_budget",
        body={"do": "delete", "item": "{budget}", "confirmed": "1"},
    ),
    page("ops/tenants/{folder}/requests", see((VIEW, "above")) + need(QUOTA, "above")),
    form(
        "ops/tenants/{folder}/requests",
        see((VIEW, "above")) + need(QUOTA, "above") + need("job.submit", "above"),
        "quotas_quotarequest",
        body={"do": "ask", "**": "{above_node.boxes}", "gpu.cards.nominal": "99", "reason": "a paper is due"},
    ),
)

_OPERATES: Final = must(("cluster.view", "platform"))
_ARRANGES: Final = _OPERATES + must(("cluster.edit", "platform"))
SETUP: Final = (
    *listing("ops/clusters", _OPERATES, shows=(("/ops/clusters/new", must(("cluster.edit", "platform"))),)),
    form(
        "ops/clusters",
        _ARRANGES,
        "",
        "sync",
        body={"do": "sync", "item": "{cluster_id}", "confirmed": "1"},
    ),
    page("ops/clusters/new", _ARRANGES),
    form(
        "ops/clusters/new",
        _ARRANGES,
        "clusters_cluster",
        "add",
        quiet=False,
        body={"kind": "simulated", "name": "another", "size": "small", "speed": "60"},
    ),
    page(
        "ops/clusters/{cluster}",
        _OPERATES,
        shows=(('value="sync"', must(("cluster.edit", "platform"))),),
    ),
    form("ops/clusters/{cluster}", _ARRANGES, "", quiet=False, body={"do": "speed", "speed": "2"}),
    page(
        "ops/flavors/{cluster}/{flavor_name}",
        _OPERATES,
        shows=(('name="cpu_per_gpu"', must(("cluster.edit", "platform"))),),
    ),
    form(
        "ops/flavors/{cluster}/{flavor_name}",
        _ARRANGES,
        "clusters_flavor",
        "ratio",
        quiet=False,
        body={
            "cpu_per_gpu": "8",
            "memory_per_gpu": "",
            "placement": "spread",
            "version": "{flavor.version}",
        },
    ),
    form(
        "ops/setup/dismiss",
        must(("cluster.edit", "platform")),
        "foundation_installation",
        "dismiss",
        quiet=False,
        body={"do": "dismiss"},
    ),
)
_ADMINS: Final = must((EDIT, "platform"))
_OVER_USER: Final = _ADMINS + cover(VIEW, place="platform")
_AUDITS: Final = must(("audit.view", "platform"))
ACCOUNTS: Final = (
    *listing("ops/roles", _ADMINS, shows=(("platform-hand", _ADMINS),)),
    form(
        "ops/roles",
        _ADMINS + cover(VIEW, place="platform"),
        "tenants_customrole",
        "make",
        body={"name": "Helper", "points": [VIEW]},
    ),
    *listing("ops/users", _ADMINS),
    form(
        "ops/users/batch",
        _ADMINS + _OVER_USER,
        "tenants_user",
        body={"do": "disable", "item": "{user}", "confirmed": "1"},
    ),
    form("ops/users", _ADMINS, "tenants_user", "invite", ok=200, body={"do": "invite", "username": "fresh"}),
    form("ops/users", _ADMINS, "tenants_user", "create", ok=200, body={"do": "create", "username": "fresh"}),
    page("ops/users/{user}", _ADMINS, shows=(('value="disable"', _OVER_USER),)),
    form(
        "ops/users/{user}",
        _OVER_USER,
        "tenants_user",
        body={"do": "disable", "version": "{user.version}"},
    ),
    form(
        "ops/users/{user}",
        _OVER_USER,
        "tenants_user",
        body={"do": "end-access", "sessions": "on", "version": "{user.version}"},
    ),
    form("ops/users/{user}", _OVER_USER, "tenants_user", ok=200, body={"do": "password"}),
    *listing("ops/groups", _ADMINS, shows=(("crowd", _ADMINS),)),
    form("ops/groups", _ADMINS, "tenants_group", "make", body={"name": "Fresh"}),
    page("ops/groups/{group}", _ADMINS),
    form(
        "ops/groups/{group}",
        _ADMINS,
        "tenants_group",
        body={"do": "rename", "name": "Other", "version": "{group.version}"},
    ),
    form("ops/groups/{group}", _ADMINS, "tenants_group", body={"do": "delete", "version": "{group.version}"}),
    form("ops/groups/{group}", _ADMINS, "tenants_groupmember", body={"do": "add", "name": "{username}"}),
    form("ops/groups/{group}", _ADMINS, "tenants_groupmember", body={"do": "remove", "user": "{person}"}),
    *listing(
        "ops/audit", must(("audit.view", "platform")), shows=(("told-", must(("audit.view", "platform"))),)
    ),
    form("ops/audit", must(("audit.view", "platform")), "", "verify", body={"verify": "1"}),
)

_QUEUE: Final = "queue.edit"
_POLICY: Final = "policy.edit"
_RAISES: Final = must((_QUEUE, "platform"))


RULES: Final = (
    *listing("ops/policies", EVERYBODY, lists="tenant_name", listed=SIGHT),
    form(
        "ops/policies",
        inside(_POLICY),
        "scheduling_workspacepolicy",
        body={"do": "delete", "item": "{tenant}", "confirmed": "1"},
    ),
    page("ops/policies/{tenant}", SIGHT, shows=(('data-dialog-open="remove"', must((_POLICY, "here"))),)),
    form(
        "ops/policies/{tenant}",
        inside(_POLICY),
        "scheduling_workspacepolicy",
        "set",
        body={"version": "{policy.version}", "any_image": "1"},
    ),
    form(
        "ops/policies/{tenant}/check",
        inside(_POLICY),
        "",
        "check",
        ok=200,
        body={"any_image": "1", "version": "0"},
    ),
    form(
        "ops/policies/{tenant}",
        inside(_POLICY),
        "scheduling_workspacepolicy",
        body={"do": "remove", "version": "{policy.version}"},
    ),
    *listing("ops/priorities", EVERYBODY, shows=(("edit=new", _RAISES),)),
    *listing(
        "ops/priorities/grants",
        EVERYBODY,
        lists="grant_line",
        listed=SIGHT,
        shows=(('value="revoke {grant}"', SIGHT + must((_QUEUE, "above"))),),
    ),
    form(
        "ops/priorities",
        _RAISES,
        "scheduling_priorityclass",
        body={"do": "make", "name": "urgent", "value": "10"},
    ),
    form(
        "ops/priorities",
        _RAISES,
        "scheduling_priorityclass",
        body={"do": "change", "row": "{class_id}", "value": "11", "version": "{class.version}"},
    ),
    form(
        "ops/priorities",
        _RAISES,
        "scheduling_priorityclass",
        body={"do": "retire", "item": "{class_id}", "confirmed": "1"},
    ),
    form(
        "ops/priorities/grants",
        SIGHT + must((_QUEUE, "above")),
        "scheduling_prioritygrant",
        body={"do": "grant", "tenant": "{tenant}", "priority_class": "steeper"},
    ),
    form(
        "ops/priorities/grants",
        SIGHT + must((_QUEUE, "above")),
        "scheduling_prioritygrant",
        body={"do": "revoke", "item": "{grant}", "confirmed": "1"},
    ),
)

_LOOK: Final = must(("cluster.view", "platform"))
_SHARES: Final = must(("cluster.edit", "platform"))
NODES: Final = (
    *(page(route, _LOOK) for route in ("ops/overview", "ops/overview/live")),
    page("ops/overview/charts/{kind}", _LOOK, values={"kind": "allocation"}),
    page("ops/overview/hours/{kind}", _LOOK, values={"kind": "used"}),
    page("ops/efficiency", _LOOK),
    page("ops/efficiency/live", _LOOK),
    page("ops/system", _LOOK, shows=(('id="branding"', _SHARES),)),
    form(
        "ops/system",
        _SHARES + _LOOK,
        "foundation_installation",
        "brand",
        quiet=False,
        body={"name": ""},
    ),
    page("ops/system/live", _LOOK),
    *listing("ops/flavors", _LOOK),
    *listing("ops/nodes", _LOOK, shows=(('value="drain', _SHARES),)),
    form(
        "ops/nodes",
        _LOOK + _SHARES,
        "clusters_nodecordon",
        "cordon",
        body={"do": "cordon", "item": "{node_id}", "choice": "a fan fails", "confirmed": "1"},
    ),
    *listing("ops/gpus", _LOOK),
    page("ops/gpus/{uuid}", _LOOK),
    page("ops/gpus/{uuid}/live", _LOOK),
    page("ops/gpus/{uuid}/charts/{kind}", _LOOK, values={"kind": "memory"}),
    page("ops/nodes/{name}", _LOOK, shows=(('data-dialog-open="drain"', _SHARES),)),
    page("ops/nodes/{name}/live", _LOOK, shows=(('data-dialog-open="drain"', _SHARES),)),
    form(
        "ops/nodes/{name}",
        _LOOK + _SHARES,
        "clusters_nodecordon",
        "drain",
        body={"do": "drain", "reason": "a fan fails"},
    ),
    page("ops/nodes/{name}/charts/{kind}", _LOOK, values={"kind": "memory"}),
    page("ops/cells", _LOOK, shows=(('name="sharing"', _SHARES),)),
    form(
        "ops/cells",
        _LOOK + _SHARES,
        "clusters_cell",
        body={"cell": "{cell}", "sharing": "classical", "version": "{cell.version}"},
    ),
    form(
        "ops/cells/check",
        _LOOK + _SHARES,
        "",
        "check",
        ok=200,
        body={"cell": "{cell}", "sharing": "classical"},
    ),
)

_EDITS_CLUSTERS: Final = must(("cluster.edit", "platform"))
_PERIOD: Final = {"begin_at": "{past_begin_typed}", "end_at": "{past_end_typed}"}
REPLAYS: Final = (
    *listing("ops/replays", _LOOK, shows=(("/ops/replays/new", _EDITS_CLUSTERS),)),
    page("ops/replays/new", _LOOK + _EDITS_CLUSTERS),
    form(
        "ops/replays/new",
        _LOOK + _EDITS_CLUSTERS,
        "scheduling_policyreplay",
        "start",
        quiet=False,
        body={**_PERIOD, "sharing": "classical"},
    ),
    page("ops/replays/{replay}", _LOOK, shows=(('value="delete"', _EDITS_CLUSTERS),)),
    page("ops/replays/{replay}/live", _LOOK),
    form("ops/replays/{replay}", _LOOK + _EDITS_CLUSTERS, "scheduling_policyreplay", body={"do": "cancel"}),
    form("ops/replays/{replay}", _LOOK + _EDITS_CLUSTERS, "scheduling_policyreplay", body={"do": "delete"}),
)
_SOURCE: Final = "ops/sources/{source}"
_SOURCE_FIELDS: Final = {
    "name": "fresh",
    "kind": "dcgm",
    "address": "http://10.0.0.1:9400/metrics",
    "every_s": "15",
    "enabled": "on",
}
SOURCES: Final = (
    *listing("styleguide", _LOOK),
    form("styleguide", _LOOK, "", "sample", body={"do": "sample"}),
    *listing("ops/sources", _LOOK, shows=(("edit=new", _EDITS_CLUSTERS),)),
    *listing("ops/sources/agents", _LOOK),
    form(
        "ops/sources",
        _LOOK + _EDITS_CLUSTERS,
        "telemetry_telemetrysource",
        body={"do": "delete", "item": "{source}", "confirmed": "1"},
    ),
    page(_SOURCE, _LOOK, shows=(('value="delete"', _EDITS_CLUSTERS),)),
    page(f"{_SOURCE}/live", _LOOK),
    form(
        "ops/sources",
        _LOOK + _EDITS_CLUSTERS,
        "telemetry_telemetrysource",
        body={"do": "make", "cluster": "{cluster}", **_SOURCE_FIELDS},
    ),
    form(
        _SOURCE,
        _LOOK + _EDITS_CLUSTERS,
        "telemetry_telemetrysource",
        body={"do": "change", "version": "{source.version}", **_SOURCE_FIELDS},
    ),
    form(_SOURCE, _LOOK + _EDITS_CLUSTERS, "", ok=200, body={"do": "test"}),
    form(
        _SOURCE,
        _LOOK + _EDITS_CLUSTERS,
        "telemetry_telemetrysource",
        body={"do": "delete", "version": "{source.version}"},
    ),
)

_ANY: Final = "job.stop-any"
_STOPS: Final = must(*ABOVE) + see((JOB, "here"))
_OWN: Final = must(("job.stop-own", "here"), (_ANY, "here"))
ALL_JOBS: Final = (
    page(
        "ops/jobs",
        must(*ABOVE),
        query="?show={job}",
        case="with the details of a job",
        shows=(('id="list-panel"', must(*ABOVE) + see((JOB, "here"))),),
    ),
    *listing(
        "ops/jobs",
        must(*ABOVE),
        lists="train",
        listed=see((JOB, "here")),
        by="state=waiting",
        shows=(('id="batch-jobs"', must(*ABOVE) + must(("job.stop-own", "anywhere"), (_ANY, "anywhere"))),),
    ),
    page(
        "ops/jobs",
        _STOPS,
        query="?part=dialogs&row={job}",
        case="the dialogs of a job",
        shows=(('id="cancel-{job}"', must((_ANY, "here"))),),
    ),
    *(
        form(
            "ops/jobs/batch",
            wanted,
            table,
            f"{do} {case}",
            arrange=arrange,
            body={"do": do, "item": "{job}", "confirmed": "1"},
        )
        for do, table, state in (
            ("suspend", "scheduling_job", "job"),
            ("delete", "scheduling_jobdeletion", "ended"),
        )
        for wanted, arrange, case in (
            (_STOPS + must((_ANY, "here")), "" if state == "job" else state, "of another"),
            (_STOPS + _OWN, f"own-{state}", "one's own"),
        )
    ),
)

_PRICES: Final = must(("cluster.view", "platform"))
_PRICING: Final = _PRICES + must(("cluster.edit", "platform"))
_PRICE: Final = {"do": "create", "flavor": "{flavor}", "gpu_hour": "2.5", "effective_at": "{soon_typed}"}
PRICES: Final = (
    *listing("ops/prices", _PRICES, shows=(("edit=new", must(("cluster.edit", "platform"))),)),
    form("ops/prices", _PRICING, "telemetry_price", quiet=False, body=_PRICE),
    form(
        "ops/prices",
        _PRICING,
        "telemetry_price",
        body={"do": "delete", "item": "{price}", "confirmed": "1"},
    ),
)

ROWS: Final = (
    *QUOTAS,
    *ASKING,
    *SETUP,
    *ACCOUNTS,
    *RULES,
    *NODES,
    *REPLAYS,
    *SOURCES,
    *PRICES,
    *ALL_JOBS,
)
__all__ = ["GPU_CARDS", "ROWS"]
