"""The console's pages of an account and of a workspace."""

from __future__ import annotations

from typing import Any, Final

from tests.access.actors import VIEW
from tests.access.table import EVERYBODY, NOBODY, NOT_SO, SIGHT, Ask, Need, cover, inside, must, need, see

EDIT: Final = "member.edit"
JOB: Final = "job.view"
QUOTA: Final = "quota.view"
GPU_CARDS: Final = "gpu.cards"
ABOVE: Final = ((JOB, "above"), (JOB, "elsewhere"))
"""Rights of which each shows jobs by a role above workspaces."""
OPERATES: Final = must(
    ("cluster.view", "platform"),
    ("quota.edit", "anywhere"),
    *ABOVE,
    (EDIT, "platform"),
    ("audit.view", "platform"),
)
"""The need of the operators' side of the console."""


def page(route: str, wanted: Need, **more: Any) -> Ask:
    """Return the row of a page that is read."""
    return Ask(route=route, method="GET", need=wanted, **more)


def listing(route: str, wanted: Need, *, shows: Any = (), by: str = "", **more: Any) -> tuple[Ask, ...]:
    """Return rows of a page with a list, its rows alone, and the list as a file; `by` filters one of many."""
    parts = (("part=rows", "rows alone"), ("format=csv", "as a file"))
    return (
        page(route, wanted, shows=shows, query=by and f"?{by}", **more),
        *(
            page(route, wanted, query="?" + "&".join(filter(None, (query, by))), case=case, **more)
            for query, case in parts
        ),
    )


def form(route: str, wanted: Need, writes: str, case: str = "", **more: Any) -> Ask:
    """Return the row of a form; a refusal is a page of its own, or a sentence on the page of the form."""
    more = {"ok": 302, "quiet": True, **more}
    return Ask(
        route=route,
        method="POST",
        need=wanted,
        writes=writes,
        case=case or more["body"].get("do", ""),
        **more,
    )


ACCOUNT: Final = (
    page("", EVERYBODY, ok=0, shows=(("/ops/overview", must(("cluster.view", "platform"))),)),
    page("login", EVERYBODY, open=True, ok=0),
    page("livez", EVERYBODY, open=True),
    page("live", EVERYBODY),
    page("outages", EVERYBODY),
    page("change-estimate", EVERYBODY, query="?of={job}", ok=286),
    form("change-estimate", EVERYBODY, "", "cancel", ok=200, body={"do": "cancel"}),
    page("account", EVERYBODY, unchosen=True),
    form(
        "account",
        EVERYBODY,
        "tenants_user",
        unchosen=True,
        program=200,
        body={"old": "a long password 1", "new": "quite another 22", "again": "quite another 22"},
    ),
    *listing("account/keys", EVERYBODY),
    page(
        "account/keys",
        EVERYBODY,
        query="?edit=new",
        case="a new key",
        shows=(('value="quota.edit"', must(("quota.edit", "anywhere"))),),
    ),
    form(
        "account/keys",
        EVERYBODY,
        "tenants_accesskey",
        ok=200,
        program=400,
        body={"do": "make", "name": "mine", "days": "30"},
    ),
    form(
        "account/keys",
        EVERYBODY,
        "tenants_accesskey",
        program=302,
        arrange="own-key",
        body={"do": "revoke", "item": "{own_key_id}", "confirmed": "1"},
    ),
    form("account/keys", NOBODY, "", "of another", body={"do": "revoke", "item": "{key_id}"}),
    page("logo/{mark}", EVERYBODY, open=True, ok=404, values={"mark": "none"}),
    page("people", EVERYBODY, query="?q=e"),
    page("tenant-names", EVERYBODY, query="?q=s", lists="ws", listed=SIGHT),
    page("quota-names", EVERYBODY, query="?q=queue", lists="queue", listed=see((QUOTA, "here"))),
    form("lists/{key}", EVERYBODY, "", values={"key": "jobs"}, body={"columns": "name"}),
    page("invitation/{invited}/{invitation}", EVERYBODY, open=True),
    form(
        "invitation/{invited}/{invitation}",
        EVERYBODY,
        "tenants_user",
        "accept",
        open=True,
        body={"new": "quite another 22", "again": "quite another 22"},
    ),
    page("search", EVERYBODY, query="?q=train", case="of a job", lists="train", listed=need(JOB), ok=0),
    page(
        "search",
        EVERYBODY,
        query="?q=node-",
        case="of a node",
        shows=(("node-1", must(("cluster.view", "platform"))),),
    ),
    page("search", EVERYBODY, query="?q=s", case="of workspaces", lists="ws", listed=SIGHT, ok=0),
    page(
        "search",
        EVERYBODY,
        query="?q=queue",
        case="of queues",
        lists="queue",
        listed=see((QUOTA, "here")),
        ok=0,
    ),
)

_W: Final = "w/{workspace}"
_JOBS: Final = f"{_W}/jobs"
_READ: Final = inside(JOB)
_SUBMIT: Final = "job.submit"
_ANY: Final = "job.stop-any"
_NEW: Final = "/jobs/new"
_TEMPLATES: Final = f"{_W}/job-templates"
_OWN: Final = must(("job.stop-own", "here"), (_ANY, "here"))
WORK: Final = (
    page(_W, SIGHT, ok=302),
    *(
        page(f"{_W}/{tail}", _READ, shows=(('id="queues"', must((QUOTA, "here"))),))
        for tail in ("overview", "overview/live")
    ),
    page(f"{_W}/overview/charts/{{kind}}", SIGHT + see((JOB, "here")), values={"kind": "compute"}),
    *listing(_JOBS, _READ, shows=((_NEW, must((_SUBMIT, "here"))),), lists="train", listed=need(JOB)),
    page(
        _JOBS,
        _READ,
        query="?part=dialogs&row={job}",
        case="the dialogs of a job",
        shows=(('id="cancel-{job}"', must((_ANY, "here"))),),
    ),
    page(f"{_W}/notebooks", _READ),
    page(f"{_W}/notebooks", _READ, query="?part=rows", case="rows alone"),
    page(f"{_W}/notebooks", _READ, query="?format=csv", case="as a file"),
    *(
        form(
            f"{_W}/job-batch",
            wanted,
            "scheduling_job",
            case,
            arrange=arrange,
            body={"do": "suspend", "item": "{job}", "confirmed": "1"},
        )
        for wanted, arrange, case in (
            (_READ + _OWN + need(_ANY), "", "of another"),
            (_READ + _OWN, "own-job", "one's own"),
        )
    ),
    *(
        form(
            f"{_W}/job-batch",
            wanted,
            "scheduling_jobtag",
            f"add tags {case}",
            arrange=arrange,
            body={"do": "add-tags", "item": "{job}", "choice": "baseline", "confirmed": "1"},
        )
        for wanted, arrange, case in (
            (_READ + _OWN + need(_ANY), "", "of another"),
            (_READ + _OWN, "own-job", "one's own"),
        )
    ),
    *(
        form(
            f"{_W}/job-batch",
            wanted,
            "scheduling_jobdeletion",
            f"delete {case}",
            arrange=arrange,
            body={"do": "delete", "item": "{job}", "confirmed": "1"},
        )
        for wanted, arrange, case in (
            (_READ + _OWN + need(_ANY), "ended", "of another"),
            (_READ + _OWN, "own-ended", "one's own"),
        )
    ),
    *listing(
        _TEMPLATES,
        _READ,
        shows=(("/job-templates/new", must((_SUBMIT, "here"))),),
        lists="template_name",
        listed=need(JOB),
    ),
    form(
        _TEMPLATES,
        _READ + need(_SUBMIT),
        "scheduling_jobtemplate",
        "delete from the list",
        body={"do": "delete", "item": "{template}", "confirmed": "1"},
    ),
    page(f"{_TEMPLATES}/new", inside(_SUBMIT)),
    page(f"{_TEMPLATES}/new", inside(_SUBMIT) + need(JOB), query="?from={job}", case="from a job"),
    form(
        f"{_TEMPLATES}/new",
        inside(_SUBMIT),
        "scheduling_jobtemplate",
        "create",
        body={"do": "save", "name": "fresh", "text": "kind: batch"},
    ),
    page(f"{_TEMPLATES}/{{template}}", _READ, shows=(('value="delete"', must((_SUBMIT, "here"))),)),
    form(
        f"{_TEMPLATES}/{{template}}",
        _READ + need(_SUBMIT),
        "scheduling_jobtemplate",
        body={"do": "save", "name": "other", "text": "kind: batch", "version": "{template.version}"},
    ),
    form(
        f"{_TEMPLATES}/{{template}}",
        _READ + need(_SUBMIT),
        "scheduling_jobtemplate",
        body={"do": "delete", "version": "{template.version}"},
    ),
    page(
        f"{_JOBS}/new",
        inside(_SUBMIT) + need(QUOTA) + need(JOB),
        query="?template={template}",
        case="from a template",
    ),
    page(f"{_JOBS}/new", inside(_SUBMIT) + need(QUOTA) + need(JOB)),
    page(f"{_JOBS}/new", inside(_SUBMIT) + need(QUOTA) + need(JOB), query="?from={job}", case="from another"),
    form(
        f"{_JOBS}/new",
        inside(_SUBMIT) + need(QUOTA) + need(JOB),
        "scheduling_job",
        "submit",
        body={
            "do": "submit",
            "tab": "yaml",
            "yaml": "{name: fresh, queue: ~queue~, roles: [{resources: {gpu: {cards: 1}}}]}",
        },
    ),
    form(
        f"{_JOBS}/new/check",
        inside(_SUBMIT) + need(QUOTA) + need(JOB),
        "",
        "check",
        ok=200,
        body={"tab": "yaml", "yaml": "{name: fresh, roles: [{resources: {gpu: {cards: 1}}}]}"},
    ),
    page(f"{_JOBS}/new/estimate", inside(_SUBMIT), query="?of={job}", ok=286),
    form(
        f"{_JOBS}/new/estimate",
        inside(_SUBMIT),
        "scheduling_startestimate",
        "estimate",
        ok=200,
        body={
            "tab": "yaml",
            "yaml": "{name: fresh, queue: ~queue~, roles: [{resources: {gpu: {cards: 1}}}]}",
        },
    ),
    page(f"{_JOBS}/new/sizes", inside(_SUBMIT) + need(QUOTA), query="?queue={queue}"),
    page(f"{_JOBS}/new/claims", inside(_SUBMIT) + need(QUOTA), query="?queue={queue}"),
    *(page(f"{_JOBS}/{{job}}{tail}", _READ) for tail in ("", "/live")),
    *(
        page(f"{_JOBS}/{{job}}", _READ, query=f"?tab={tab}")
        for tab in ("timeline", "logs", "metrics", "tasks", "spec")
    ),
    *(page(f"{_JOBS}/{{job}}/{tail}", _READ) for tail in ("check", "log", "pod-events")),
    page(f"{_JOBS}/{{job}}/charts/{{measure}}", _READ, values={"measure": "utilisation"}),
    *(
        form(
            f"{_JOBS}/{{job}}/{verb}",
            wanted,
            "scheduling_job",
            case,
            quiet=False,
            arrange=arrange,
            body={"next": ""},
        )
        for verb, state in (("cancel", ""), ("suspend", ""), ("resume", "suspended"), ("restart", "running"))
        for wanted, arrange, case in (
            (_READ + need(_ANY), state, "of another"),
            (_READ + _OWN, f"own-{state or 'job'}", "one's own"),
        )
    ),
    # The job of the table cannot exchange its place with itself: an actor with the right gets that error.
    *(
        form(
            f"{_JOBS}/{{job}}/exchange",
            wanted,
            "",
            case,
            quiet=False,
            arrange=arrange,
            body={"other": "{job}"},
        )
        for wanted, arrange, case in (
            (_READ + need(_ANY), "", "of another"),
            (_READ + _OWN, "own-job", "one's own"),
        )
    ),
    *(
        form(
            f"{_JOBS}/{{job}}/priority",
            wanted + need(_SUBMIT),
            "scheduling_job",
            case,
            arrange=arrange,
            body={"next": "", "priority": "normal"},
        )
        for wanted, arrange, case in (
            (_READ + need(_ANY), "", "of another"),
            (_READ + _OWN, "own-job", "one's own"),
        )
    ),
    *(
        form(
            f"{_JOBS}/{{job}}/tags",
            wanted,
            "scheduling_jobtag",
            case,
            quiet=False,
            arrange=arrange,
            body={"next": "", "tags": "baseline"},
        )
        for wanted, arrange, case in (
            (_READ + need(_ANY), "", "of another"),
            (_READ + _OWN, "own-job", "one's own"),
        )
    ),
    *(
        form(f"{_JOBS}/{{job}}/extend", wanted, "", case, quiet=False, arrange=arrange)
        for wanted, arrange, case in (
            (_READ + need(_ANY), "", "of another"),
            (_READ + _OWN, "own-job", "one's own"),
        )
    ),
    page(f"{_JOBS}/{{held}}/tasks/{{task}}/memory", _READ + need(_ANY)),
    form(
        f"{_JOBS}/{{held}}/tasks/{{task}}/memory",
        _READ + need(_ANY),
        "",
        quiet=False,
        body={"memory": "1024"},
    ),
)

_MEMBERS: Final = f"{_W}/members"
_HANDS: Final = inside(EDIT) + cover(VIEW)
MEMBERS: Final = (
    *listing(
        _MEMBERS,
        SIGHT,
        by="filterBy=name=@mia",
        shows=(("edit=new", must((EDIT, "here"))),),
        lists="member_name",
        listed=SIGHT,
    ),
    *listing(
        f"{_MEMBERS}/permissions", SIGHT, by="filterBy=username=@mia", lists="member_name", listed=SIGHT
    ),
    form(_MEMBERS, _HANDS, "tenants_member", body={"do": "add", "name": "{username}", "role": "{role_name}"}),
    form(
        _MEMBERS,
        inside(EDIT) + cover(VIEW, QUOTA, JOB),
        "tenants_member",
        "add a viewer",
        body={"do": "add", "name": "{username}", "role": "viewer"},
    ),
    form(
        _MEMBERS,
        _HANDS,
        "tenants_member",
        body={"do": "change", "row": "{member}", "role": "{role_name}", "version": "{member.version}"},
    ),
    form(
        _MEMBERS,
        _HANDS,
        "tenants_member",
        body={"do": "remove", "item": "{member}", "confirmed": "1"},
    ),
    page(
        f"{_W}/policy",
        SIGHT,
        shows=(
            ("Operations</a>", OPERATES),
            ('href="/ops/overview"', must(("cluster.view", "platform"))),
            ('side-count">2<', must((JOB, "here"))),
        ),
    ),
    *listing(f"{_W}/audit", inside("audit.view"), lists="told", listed=need("audit.view")),
    *listing(
        f"{_W}/keys",
        SIGHT,
        shows=(("/keys/accounts", must((EDIT, "here"))),),
        lists="prefix",
        listed=need(EDIT),
    ),
    page(
        f"{_W}/keys",
        SIGHT,
        query="?edit=new",
        case="a new key",
        shows=(('value="quota.edit"', must(("quota.edit", "here"))),),
    ),
    *listing(f"{_W}/keys/accounts", inside(EDIT), shows=(("edit=new", inside(EDIT)),)),
    form(
        f"{_W}/keys",
        SIGHT,
        "tenants_accesskey",
        ok=200,
        program=400,
        body={"do": "make", "name": "mine", "days": "30", "owner": "{me}"},
        case="make one's own",
    ),
    form(
        f"{_W}/keys",
        SIGHT + must((EDIT, "here")),
        "tenants_accesskey",
        "make for a program",
        ok=200,
        body={"do": "make", "name": "ci", "days": "30", "owner": "{account}"},
    ),
    form(f"{_W}/keys/accounts", inside(EDIT), "tenants_user", body={"do": "create", "name": "fresh"}),
    form(
        f"{_W}/keys/accounts",
        inside(EDIT),
        "tenants_user",
        body={"do": "end", "item": "{account_id}", "confirmed": "1"},
    ),
    *(
        form(
            f"{_W}/keys",
            SIGHT + see((EDIT, "here")),
            "tenants_accesskey",
            ok=ok,
            body={"do": verb, field: "{key_id}", "confirmed": "1"},
        )
        for verb, field, ok in (("revoke", "item", 302), ("rotate", "row", 200))
    ),
)

USAGE: Final = (
    page(f"{_W}/usage", _READ, query="?by=job", lists="held", listed=need(JOB)),
    page(f"{_W}/usage/preemptions", _READ),
    page("ops/reports/preemptions", EVERYBODY),
    page("ops/reports", EVERYBODY, query="?by=job", lists="held", listed=see((JOB, "here"))),
)

_EDITS: Final = "quota.edit"
_ASK: Final = 'id="ask-form"'
_REQUESTS: Final = f"{_W}/requests"
_LIMITS: Final = f"{_W}/limits"
ASKING: Final = (
    page(f"{_W}/quota", inside(QUOTA), lists="revision_reason", listed=need(QUOTA)),
    *listing(
        _REQUESTS,
        inside(QUOTA),
        shows=(
            (_ASK, must((_SUBMIT, "here"))),
            ('data-dialog-open="withdraw-{quota_request}"', must((_EDITS, "here"))),
        ),
        lists="wish",
        listed=need(QUOTA),
    ),
    page(
        _REQUESTS,
        inside(QUOTA),
        query="?part=dialogs&row={quota_request}",
        case="the dialogs of a request",
        shows=(('id="withdraw-{quota_request}"', must((_EDITS, "here"))),),
    ),
    form(
        _REQUESTS,
        inside(QUOTA) + need(_SUBMIT),
        "quotas_quotarequest",
        body={"do": "ask", "**": "{node.boxes}", "gpu.cards.nominal": "15", "reason": "a paper is due"},
    ),
    form(
        _REQUESTS,
        inside(QUOTA) + must((_EDITS, "here")),
        "quotas_quotarequest",
        body={"do": "withdraw", "request": "{quota_request}"},
    ),
    *(
        form(
            _REQUESTS,
            inside(QUOTA) + refused,
            "quotas_quotarequest",
            f"{verb} {case}",
            arrange=arrange,
            body={"do": verb, "request": "{quota_request}"},
        )
        for verb in ("accept", "decline")
        for arrange, refused, case in (("offered", must(), "another's"), ("own-offer", (), "one's own"))
    ),
    page(
        _LIMITS,
        inside(QUOTA),
        shows=(('name="amount"', must((_EDITS, "here"))),),
        lists="limit_amount",
        listed=need(QUOTA),
    ),
    form(
        _LIMITS,
        inside(QUOTA) + need(_EDITS),
        "quotas_userlimit",
        "set",
        body={"resource": "gpu.cores", "amount": "4", "user": ""},
    ),
    form(
        # The limit on this resource is that of one user: no limit of all users exists to be lifted.
        _LIMITS,
        inside(QUOTA) + need(_EDITS) + NOT_SO,
        "quotas_userlimit",
        "lift what is not there",
        body={"resource": "gpu.memory", "amount": "", "user": ""},
    ),
    form(
        _LIMITS,
        inside(QUOTA) + need(_EDITS),
        "quotas_userlimit",
        "change",
        body={"resource": GPU_CARDS, "amount": "5", "user": ""},
    ),
    form(
        _LIMITS,
        inside(QUOTA) + need(_EDITS),
        "quotas_userlimit",
        body={"do": "delete", "request": "{limit}", "version": "{limit.version}"},
    ),
)

ROWS: Final = (*ACCOUNT, *WORK, *MEMBERS, *ASKING, *USAGE)
