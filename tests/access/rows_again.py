"""Rows of requests that are repeated after a right was lost, of open streams, and of commands."""

from __future__ import annotations

from typing import Any, Final

from tests.access.actors import VIEW
from tests.access.rows_quota import CARDS, ONE_MORE
from tests.access.rows_tenancy import EDIT, api
from tests.access.table import SIGHT, Ask, Clause, Need, anywhere, cover, inside, must, need, see

_READS: Final = "job.view"
_QUOTA: Final = "quota.view"
_DIVIDES: Final = "quota.edit"
_TREE: Final = "tenant.edit"
_READ: Final = inside(_READS)
_JOB: Final = "workspaces/{ws}/jobs/{job}"


def again(route: str, wanted: Need, scope: str, lost: str, then: Need, **more: Any) -> Ask:
    """Return the row of a POST that is sent twice with one key; the caller loses something in between."""
    case = f"again without {lost}"
    return api(route, "POST", wanted, scope, lost=lost, then=then, case=case, has_dry_run=False, **more)


_STOPS: Final = see((VIEW, "here")) + must(("job.stop-own", "here"), ("job.stop-any", "here"))
_ABOVE: Final = must((_DIVIDES, "above"))
_FILE: Final = {"body": "tenant,flavor,resource,nominal\n{ws},a100,gpu.cards,14\n", "media": "text/csv"}
_MAKES: Final = anywhere(_TREE) + see((VIEW, "above")) + need(_TREE, "above")
_ONE: Final = "admin/quota-requests/{quota_request}"
_LEND: Final = {
    "lender": "{above_node}",
    "borrower": "{node}",
    "amounts": [{**CARDS, "amount": 1}],
    "ends_at": "{soon}",
}
_BOTH: Final = need(_QUOTA, "above") + need(_QUOTA)
AGAIN: Final = (
    again(
        f"{_JOB}/cancel",
        _READ + _STOPS,
        "job.stop-own",
        "the right here",
        must(("job.stop-own", "here")),
        ok=202,
        arrange="own-job",
    ),
    again(
        f"{_JOB}/cancel",
        _READ + _STOPS,
        "job.stop-own",
        "the workspace",
        SIGHT,
        ok=202,
        arrange="own-job",
    ),
    again(
        "tenants/{tenant}/archive",
        anywhere(_TREE) + SIGHT + need(_TREE, "above"),
        _TREE,
        "the right here",
        SIGHT + must((_TREE, "here")),
        body={},
    ),
    again(
        "tenants",
        _MAKES,
        _TREE,
        "the platform",
        must((_TREE, "platform")),
        ok=201,
        body={"parent": "{folder}", "kind": "folder", "name": "Fresh"},
    ),
    again(
        "admin/groups",
        need(EDIT, "platform"),
        EDIT,
        "the platform",
        must((EDIT, "platform")),
        ok=201,
        body={"name": "Fresh"},
    ),
    again(
        "admin/quota-file",
        (*anywhere(_DIVIDES), Clause(400, ((VIEW, "here"),)), *need(_QUOTA), *_ABOVE),
        _DIVIDES,
        "sight",
        must((VIEW, "here")),
        **_FILE,
    ),
    again(
        "admin/quota-revisions/{revision}/revert",
        anywhere(_DIVIDES) + see((_QUOTA, "here")) + _ABOVE,
        _DIVIDES,
        "the workspace",
        see((_QUOTA, "here")),
        ok=201,
        body={},
    ),
    again(
        "admin/overrides/{override}/end",
        anywhere(_DIVIDES) + see((_QUOTA, "here"), (_QUOTA, "above")) + _BOTH + _ABOVE,
        _DIVIDES,
        "the workspace",
        see((_QUOTA, "here")),
        body={},
    ),
    again(
        "admin/overrides",
        anywhere(_DIVIDES) + _BOTH + _ABOVE,
        _DIVIDES,
        "the platform",
        must((_DIVIDES, "platform")),
        ok=201,
        body=_LEND,
    ),
    again(
        "admin/quota-requests",
        anywhere("job.submit") + need(_QUOTA) + need("job.submit"),
        "job.submit",
        "the workspace",
        see((_QUOTA, "here")),
        ok=201,
        body={"node": "{node}", "amounts": ONE_MORE, "reason": "a paper is due"},
    ),
    again(
        f"{_ONE}/reject",
        anywhere(_DIVIDES) + see((_QUOTA, "here")) + _ABOVE,
        _DIVIDES,
        "the workspace",
        see((_QUOTA, "here")),
        body={"answer": "no"},
    ),
    again(
        "admin/priority-grants",
        anywhere("queue.edit") + need(_QUOTA) + SIGHT + must(("queue.edit", "above")),
        "queue.edit",
        "the workspace",
        SIGHT,
        ok=201,
        body={"tenant": "{ws}", "priority_class": "steeper"},
    ),
    again(
        "tenants/{tenant}/members",
        anywhere(EDIT) + inside(EDIT) + cover(VIEW),
        EDIT,
        "the right here",
        must((EDIT, "here")),
        ok=201,
        body={"user": "{username}", "role": "{role_name}"},
    ),
)


def stream(route: str, lost: str, wanted: Need, then: Need, query: str, **more: Any) -> Ask:
    """Return the row of an event stream that is read again after something was lost."""
    case = f"{more.pop('case')}{' by a session' if more.get('session') else ''} after losing {lost}"
    return api(route, "GET", wanted, _READS, lost=lost, then=then, query=query, case=case, **more)


_OF_HERE: Final = ("events", "?workspace={ws}&cursor=0", _READ, "of a workspace")
_OF_ALL: Final = ("events", "?cursor=0", need(_READS, "platform"), "of everybody")
_PRINTED: Final = ("workspaces/{ws}/jobs/{job}/logs", "?follow=true", _READ, "followed")
STREAMS: Final = tuple(
    stream(route, lost, wanted, wanted, query, case=case)
    for route, query, wanted, case in (_OF_HERE, _OF_ALL, _PRINTED)
    for lost in (
        "nothing",
        "every role",
        "the right here",
        "the workspace",
        "the platform",
        "the key",
        "the account",
    )
) + tuple(
    stream(route, lost, wanted, wanted, query, case=case, session=True)
    for route, query, wanted, case in (_OF_HERE, _PRINTED)
    for lost in ("the session", "the password", "the account")
)


def command(words: str, wanted: Need, **more: Any) -> Ask:
    """Return the row of a command that is run in the name of the actor."""
    return Ask(route=words, method="COMMAND", need=wanted, **more)


_LOOK: Final = must(("cluster.view", "platform"))
_CHANGE: Final = must(("cluster.edit", "platform"))
COMMANDS: Final = (
    command("cell list", _LOOK),
    command("cell add fresh", _CHANGE, writes="clusters_cell"),
    command("cell set default --sharing classical", _CHANGE, writes="clusters_cell"),
    command("cluster list", _LOOK),
    command("usage --tenant {ws}", need("job.view")),
    # The path doesn't exist and the simulated cluster isn't built: an actor with the right gets 422.
    command("job explain {job} --workspace {ws}", inside("job.view")),
    command("job logs {job} --workspace {ws}", inside("job.view")),
    command("cluster add fresh --path nowhere", _CHANGE, ok=422),
    command("cluster sync {cluster}", _LOOK + _CHANGE, ok=422),
    command("cluster set {cluster} --server https://127.0.0.1:1", _LOOK + _CHANGE, ok=422),
    command("cluster take-over {cluster} --owner nobody", _LOOK + _CHANGE, ok=0),
    command("cluster remove {cluster} --yes", _LOOK + _CHANGE, ok=409),
    command("flavor list", _LOOK),
    command("flavor discover {cluster}", _LOOK),
    command(
        "flavor discover {cluster} --apply --quota",
        _LOOK + must((_DIVIDES, "platform")) + must((_QUOTA, "platform")),
    ),
    command("flavor add {cluster} fresh --selector a=b --force", _LOOK + _CHANGE, writes="clusters_flavor"),
    command("flavor remove {cluster} a100 --yes", _LOOK + _CHANGE, ok=409),
)

ROWS: Final = (*AGAIN, *STREAMS, *COMMANDS)
