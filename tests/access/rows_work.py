"""Jobs, priorities, policies, clusters and measurements, by the REST API."""

from __future__ import annotations

from typing import Final

from tests.access.actors import VIEW
from tests.access.rows_pages import ABOVE
from tests.access.rows_tenancy import api
from tests.access.table import EVERYBODY, NOBODY, NOT_SO, SIGHT, anywhere, inside, must, need, see

_READS: Final = "job.view"
_SUBMITS: Final = "job.submit"
_OWN: Final = "job.stop-own"
_ANY: Final = "job.stop-any"
_READ: Final = inside(_READS)
_JOB: Final = "workspaces/{ws}/jobs/{job}"
_TEMPLATE: Final = "workspaces/{ws}/job-templates/{template}"
_FRESH: Final = {"name": "fresh", "queue": "{queue}", "roles": [{"resources": {"gpu": {"cards": 1}}}]}
_STOP_OWN: Final = see(("job.stop-own", "here"), (_ANY, "here"), (VIEW, "here")) + must(
    (_OWN, "here"), (_ANY, "here")
)

JOBS: Final = (
    api("workspaces/{ws}/jobs", "GET", _READ, _READS, lists="job", listed=need(_READS)),
    api(
        "workspaces/{ws}/jobs",
        "POST",
        SIGHT + need(_SUBMITS),
        _SUBMITS,
        ok=202,
        body=_FRESH,
        writes="scheduling_job",
        has_dry_run=False,
    ),
    api(
        # A body that is not JSON is an error only for an actor with the right.
        "workspaces/{ws}/jobs",
        "POST",
        SIGHT + need(_SUBMITS) + NOT_SO,
        _SUBMITS,
        ok=400,
        body="{",
        case="that nobody can read",
    ),
    api("admin/jobs", "GET", must(*ABOVE), _READS, lists="job", listed=see((_READS, "here"))),
    api(
        "admin/jobs",
        "GET",
        must(*ABOVE),
        _READS,
        query="?tenant={ws}",
        case="of a workspace",
        lists="job",
        listed=SIGHT + see((_READS, "here")),
    ),
    api(_JOB, "GET", _READ, _READS),
    api("workspaces/{ws}/jobs/{train}", "GET", _READ, _READS, case="by its name"),
    api("workspaces/{ws}/jobs", "GET", _READ, _READS, query="?queue={queue}", case="of a queue"),
    *(
        api(f"{_JOB}/{part}", "GET", _READ, _READS)
        for part in ("events", "tasks", "pod-events", "resize", "explain", "expected-start", "check", "cost")
    ),
    api("workspaces/{ws}/jobs/{job}/logs", "GET", _READ, _READS),
    api(
        "workspaces/{ws}/startable-jobs",
        "GET",
        SIGHT + need(_SUBMITS) + need("quota.view"),
        _SUBMITS,
        query="?queue={queue}&blocks=true",
    ),
    api("workspaces/{ws}/job-templates", "GET", _READ, _READS, lists="template_name", listed=need(_READS)),
    api(
        "workspaces/{ws}/job-templates",
        "POST",
        SIGHT + need(_SUBMITS),
        _SUBMITS,
        ok=201,
        body={"name": "fresh", "text": "kind: batch"},
        writes="scheduling_jobtemplate",
    ),
    api(_TEMPLATE, "GET", _READ, _READS),
    api(
        _TEMPLATE,
        "PATCH",
        _READ + need(_SUBMITS),
        _SUBMITS,
        body={"description": "other"},
        writes="scheduling_jobtemplate",
    ),
    api(_TEMPLATE, "DELETE", _READ + need(_SUBMITS), _SUBMITS, ok=204, writes="scheduling_jobtemplate"),
    api(
        f"{_JOB}/clone",
        "POST",
        _READ + need(_SUBMITS),
        _SUBMITS,
        ok=202,
        body={"name": "copy"},
        writes="scheduling_job",
    ),
    api("events", "GET", _READ, _READS, query="?workspace={ws}"),
    api("events", "GET", need(_READS, "platform"), _READS, case="of everybody"),
    api(
        "workspaces/{ws}/job-submissions",
        "POST",
        SIGHT + need(_SUBMITS),
        _SUBMITS,
        ok=202,
        body={"jobs": [_FRESH]},
        writes="scheduling_job",
        has_dry_run=False,
        quiet=True,
    ),
)

_VERBS: Final = (
    ("cancel", "", None),
    ("suspend", "", None),
    ("resume", "suspended", None),
    ("restart", "running", None),
    ("tags", "", {"add": ["baseline"]}),
)
ACTIONS: Final = (
    *(
        api(
            _JOB,
            "DELETE",
            wanted,
            scope,
            ok=204,
            arrange=arrange,
            writes="scheduling_jobdeletion",
            case=case,
        )
        for wanted, scope, arrange, case in (
            (_READ + need(_ANY), f"{_OWN} {_ANY}", "ended", "of another"),
            (_READ + _STOP_OWN, _OWN, "own-ended", "one's own"),
        )
    ),
    *(
        api(
            f"{_JOB}/{verb}",
            "POST",
            _READ + need(_ANY),
            f"{_OWN} {_ANY}",
            ok=202,
            arrange=state,
            body=body,
            writes="scheduling_job",
            case="of another",
        )
        for verb, state, body in _VERBS
    ),
    *(
        api(
            f"{_JOB}/{verb}",
            "POST",
            _READ + _STOP_OWN,
            _OWN,
            ok=202,
            arrange=f"own-{state or 'job'}",
            body=body,
            writes="scheduling_job",
            case="one's own",
        )
        for verb, state, body in _VERBS
    ),
    api(
        f"{_JOB}/priority",
        "POST",
        _READ + need(_ANY) + need(_SUBMITS),
        f"{_OWN} {_ANY} {_SUBMITS}",
        ok=202,
        body={"priority_class": "low"},
        writes="scheduling_job",
        case="of another",
    ),
    api(
        f"{_JOB}/priority",
        "POST",
        _READ + _STOP_OWN + need(_SUBMITS),
        f"{_OWN} {_SUBMITS}",
        ok=202,
        body={"priority_class": "low"},
        arrange="own-job",
        writes="scheduling_job",
        case="one's own",
    ),
    # The job of the table cannot exchange its place with itself: an actor with the right gets that error.
    api(
        f"{_JOB}/exchange",
        "POST",
        _READ + need(_ANY),
        f"{_OWN} {_ANY}",
        ok=409,
        body={"other": "{job}"},
        case="of another",
    ),
    api(
        f"{_JOB}/exchange",
        "POST",
        _READ + _STOP_OWN,
        _OWN,
        ok=409,
        body={"other": "{job}"},
        arrange="own-job",
        case="one's own",
    ),
    # The job of the table is queued: an actor with the right gets the error that there is nothing to resize.
    api(
        f"{_JOB}/resize",
        "POST",
        _READ + need(_ANY),
        f"{_OWN} {_ANY}",
        ok=409,
        body={"role": "main", "index": 0, "memory": "4Gi"},
        case="of another",
    ),
    api(
        f"{_JOB}/resize",
        "POST",
        _READ + _STOP_OWN,
        _OWN,
        ok=409,
        arrange="own-job",
        body={"role": "main", "index": 0, "memory": "4Gi"},
        case="one's own",
    ),
    # The job of the table is not idle: an actor with the right gets the error that nothing can be extended.
    api(f"{_JOB}/extend", "POST", _READ + need(_ANY), f"{_OWN} {_ANY}", ok=409, body={}, case="of another"),
    api(
        f"{_JOB}/extend",
        "POST",
        _READ + _STOP_OWN,
        _OWN,
        ok=409,
        arrange="own-job",
        body={},
        case="one's own",
    ),
    api(
        "workspaces/{ws}/job-actions",
        "POST",
        _READ + need(_ANY),
        f"{_OWN} {_ANY}",
        ok=200,
        quiet=True,
        body={"action": "cancel", "jobs": ["{job}"]},
        writes="scheduling_job",
        case="of another",
    ),
    api(
        "workspaces/{ws}/job-actions",
        "POST",
        _READ + _STOP_OWN,
        _OWN,
        ok=200,
        quiet=True,
        arrange="own-job",
        body={"action": "cancel", "jobs": ["{job}"]},
        writes="scheduling_job",
        case="one's own",
    ),
)

_QUEUE: Final = "queue.edit"
_POLICY: Final = "policy.edit"
RULES: Final = (
    api("admin/priority-classes", "GET", EVERYBODY, VIEW),
    api(
        "admin/priority-classes",
        "POST",
        need(_QUEUE, "platform"),
        _QUEUE,
        ok=201,
        body={"name": "urgent", "value": 10},
        writes="scheduling_priorityclass",
    ),
    api("admin/priority-classes/{class}", "GET", EVERYBODY, VIEW),
    api(
        "admin/priority-classes/{class}",
        "PATCH",
        need(_QUEUE, "platform"),
        _QUEUE,
        body={"value": 11},
        writes="scheduling_priorityclass",
    ),
    api("admin/priority-grants", "GET", EVERYBODY, VIEW, query="?limit=500", lists="grant", listed=SIGHT),
    api(
        "admin/priority-grants",
        "POST",
        anywhere(_QUEUE) + need("quota.view") + see((VIEW, "here")) + must((_QUEUE, "above")),
        _QUEUE,
        ok=201,
        body={"tenant": "{ws}", "priority_class": "steeper"},
        writes="scheduling_prioritygrant",
    ),
    api(
        "admin/priority-grants",
        "POST",
        anywhere(_QUEUE)
        + need("quota.view")
        + see((VIEW, "here"))
        + must((_QUEUE, "above"))
        + must((_QUEUE, "platform")),
        _QUEUE,
        ok=201,
        body={"tenant": "{ws}", "priority_class": "steepest"},
        writes="scheduling_prioritygrant",
        case="that the folder lacks",
    ),
    api(
        "admin/priority-grants/{grant}",
        "DELETE",
        SIGHT + must((_QUEUE, "above")),
        _QUEUE,
        ok=204,
        writes="scheduling_prioritygrant",
    ),
    api("admin/policies", "GET", EVERYBODY, VIEW, query="?limit=500", lists="policy_line", listed=SIGHT),
    api("tenants/{tenant}/policy", "GET", SIGHT, VIEW),
    api(
        "tenants/{other.tenant}/policy",
        "GET",
        see((VIEW, "other")),
        VIEW,
        shows=(("8282", see((VIEW, "other"))), ("7171", must())),
        case="of another workspace",
    ),
    api(
        "tenants/{tenant}/policy",
        "PUT",
        inside(_POLICY),
        _POLICY,
        body={"maximum": {"max_run_s": 864000}},
        writes="scheduling_workspacepolicy",
    ),
    api(
        "tenants/{tenant}/policy",
        "DELETE",
        inside(_POLICY),
        _POLICY,
        ok=204,
        writes="scheduling_workspacepolicy",
    ),
    api(
        "tenants/{tenant}/policy/check",
        "POST",
        inside(_POLICY),
        _POLICY,
        body={"maximum": {"max_run_s": 864000}},
    ),
    api("workspaces/{ws}/policy", "GET", SIGHT, VIEW),
)

_LOOK: Final = need("cluster.view", "platform")
_EDITS_CLUSTERS: Final = need("cluster.edit", "platform")
OPERATIONS: Final = (
    *(
        api(route, "GET", _LOOK, "cluster.view")
        for route in (
            "admin/cells",
            "admin/cells/{cell}",
            "admin/flavors",
            "admin/flavors/{cluster}/{flavor_name}",
            "admin/clusters",
            "admin/clusters/{cluster}",
            "admin/nodes",
            "admin/nodes/{name}",
            "admin/nodes/{name}/drain",
            "admin/nodes/{name}/holds",
            "admin/devices",
            "admin/efficiency",
            "admin/devices/{uuid}",
            "admin/devices/{uuid}/holds",
            "admin/telemetry-sources",
            "admin/telemetry-sources/{source}",
            "admin/policy-replays",
            "admin/policy-replays/{replay}",
        )
    ),
    *(
        api(
            f"admin/nodes/{{name}}/{act}",
            "POST",
            _EDITS_CLUSTERS + _LOOK,
            "cluster.edit",
            ok=202,
            body={"reason": "a fan fails"},
            writes="clusters_nodecordon",
        )
        for act in ("cordon", "drain")
    ),
    api("admin/nodes/{name}/uncordon", "POST", _EDITS_CLUSTERS + _LOOK, "cluster.edit", ok=202),
    api(
        "admin/policy-replays",
        "POST",
        _EDITS_CLUSTERS + _LOOK,
        "cluster.edit",
        ok=201,
        body={
            "cell": "{cell}",
            "begin_at": "{past_begin}",
            "end_at": "{past_end}",
            "sharing": "classical",
        },
        writes="scheduling_policyreplay",
    ),
    api(
        "admin/policy-replays/{replay}/cancel",
        "POST",
        _EDITS_CLUSTERS + _LOOK,
        "cluster.edit",
        writes="scheduling_policyreplay",
    ),
    api(
        "admin/policy-replays/{replay}",
        "DELETE",
        _EDITS_CLUSTERS + _LOOK,
        "cluster.edit",
        ok=204,
        writes="scheduling_policyreplay",
    ),
    api(
        "admin/telemetry-sources",
        "POST",
        _EDITS_CLUSTERS + _LOOK,
        "cluster.edit",
        ok=201,
        body={
            "cluster": "{cluster}",
            "name": "fresh",
            "kind": "dcgm",
            "address": "http://10.0.0.1:9400/metrics",
        },
        writes="telemetry_telemetrysource",
    ),
    api(
        "admin/telemetry-sources/{source}",
        "PATCH",
        _EDITS_CLUSTERS + _LOOK,
        "cluster.edit",
        body={"every_s": 60},
        writes="telemetry_telemetrysource",
    ),
    api(
        "admin/telemetry-sources/{source}",
        "DELETE",
        _EDITS_CLUSTERS + _LOOK,
        "cluster.edit",
        ok=204,
        writes="telemetry_telemetrysource",
    ),
    api("admin/telemetry-sources/{source}/test", "POST", _EDITS_CLUSTERS + _LOOK, "cluster.edit"),
    api(
        "admin/cells/{cell}",
        "PATCH",
        _EDITS_CLUSTERS + _LOOK,
        "cluster.edit",
        body={"sharing": "classical"},
        writes="clusters_cell",
    ),
    api(
        "admin/flavors/{cluster}/{flavor_name}",
        "PATCH",
        _EDITS_CLUSTERS + _LOOK,
        "cluster.edit",
        body={"cpu_per_gpu": 8000, "memory_per_gpu": None, "placement": "spread"},
        writes="clusters_flavor",
    ),
    api(
        "admin/clusters/{cluster}",
        "PATCH",
        _EDITS_CLUSTERS + _LOOK,
        "cluster.edit",
        body={"live_resize": True},
        writes="clusters_cluster",
    ),
    api("admin/agent-keys", "GET", need("cluster.edit", "platform"), "cluster.edit"),
    api(
        "admin/agent-keys",
        "POST",
        need("cluster.edit", "platform"),
        "cluster.edit",
        ok=201,
        body={"cluster": "{cluster}", "node": "{name}"},
        writes="telemetry_agentkey",
    ),
    api("admin/agent-keys/{node_id}", "DELETE", need("cluster.edit", "platform") + NOBODY, "cluster.edit"),
    api("metrics/series", "GET", _LOOK, None, query="?level=cluster", case="of a cluster"),
    api("metrics/series", "GET", _LOOK, None, query="?level=node&id={node_id}", case="of a node"),
    api("metrics/series", "GET", see((_READS, "here")), None, query="?level=job&id={held}", case="of a job"),
    api("metrics/series/export", "GET", _LOOK, None, query="?level=cluster", case="of a cluster"),
    api(
        "metrics/series/export",
        "GET",
        see((_READS, "here")),
        None,
        query="?level=job&id={held}",
        case="of a job",
    ),
)

_MANAGES: Final = need("cluster.edit", "platform")
_BY_JOB: Final = "?group_by=job&limit=500"
_PRICE: Final = {"flavor": "a100", "gpu_hour": "2.5", "effective_at": "{soon}"}
USAGE: Final = (
    api(
        "workspaces/{ws}/usage/report", "GET", _READ, _READS, query=_BY_JOB, lists="held", listed=need(_READS)
    ),
    api("workspaces/{ws}/usage/export", "GET", _READ, _READS, query="?group_by=job"),
    api("workspaces/{ws}/usage/preemptions", "GET", _READ, _READS),
    api("admin/usage/preemptions", "GET", EVERYBODY, _READS),
    api(
        "admin/usage/report",
        "GET",
        EVERYBODY,
        _READS,
        query=_BY_JOB,
        lists="held",
        listed=see((_READS, "here")),
    ),
    api("admin/usage/report", "GET", need(_READS), _READS, query="?tenant={ws}", case="of a tenant"),
    api(
        "admin/usage/export",
        "GET",
        EVERYBODY,
        _READS,
        query="?group_by=job",
        lists="held",
        listed=see((_READS, "here")),
    ),
    api("admin/prices", "GET", _LOOK, "cluster.view"),
    api("admin/prices", "POST", _MANAGES, "cluster.edit", ok=201, body=_PRICE, writes="telemetry_price"),
    api("admin/prices/{price}", "GET", _LOOK, "cluster.view"),
    api("admin/prices/{price}", "DELETE", _LOOK + _MANAGES, "cluster.edit", ok=204, writes="telemetry_price"),
)

ROWS: Final = (*JOBS, *ACTIONS, *RULES, *OPERATIONS, *USAGE)
