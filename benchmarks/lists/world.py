"""A large installation in rows: tenants in three levels, a full cluster, jobs, and rows of all other kinds.

Run as `python -m benchmarks.lists.world TENANTS JOBS NODES USERS AUDIT` in the platform's environment; prints
the input of the measurement as JSON.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.support.world import root_folder, build_simulated_cell  # isort: skip (it sets Django up)
from django.db import connection

from benchmarks.api.filling import fill_jobs
from benchmarks.api.world import (
    NO_HASH,
    PEOPLE,
    add_people,
    add_person,
    add_queues,
    new_tenant,
    submit_likeness,
)
from benchmarks.lists.beside import add_accounts, add_alerts, add_audit, add_quota_work, add_replays
from benchmarks.lists.running import BATCH, fill_history, measure_gpus, run_jobs
from clusters.models import Device, Node
from foundation.core.actor import SYSTEM
from quotas.models import QuotaNode
from scheduling.models import Job, PriorityClass
from tenants.models import Group, Role, Tenant, TenantKind, User
from tenants.services.access_key import access_key_create

CARDS: Final = 8
_FOLDERS: Final = 10
_BELOW_EACH: Final = 9
_WAITING, _RUNNING = 0.05, 0.036


def build_world(tenants: int, jobs: int, nodes: int, users: int, audit: int) -> dict[str, Any]:
    """Create everything; return the readers, and the names in addresses."""
    _report("making tenants, users and queues")
    cell, flavor = build_simulated_cell(nodes, CARDS)
    teams = _add_tenants(tenants)
    add_people(teams)
    others = [User(username=f"other-{n}", password=NO_HASH) for n in range(users - PEOPLE * len(teams))]
    User.objects.bulk_create(others, batch_size=BATCH)
    queues = 2 * len(teams)
    add_queues(cell, flavor, teams, queues)
    for name, value in (("normal", 0), ("high", 100)):
        PriorityClass.unscoped.get_or_create(name=name, defaults={"value": value})
    like = submit_likeness(teams[0])
    fill_jobs(
        like, queues=queues, people=PEOPLE, jobs=jobs, report=_report, queued=_WAITING, running=_RUNNING
    )
    _report("running jobs")
    fill_history(flavor)
    run_jobs(flavor)
    measure_gpus(flavor.cluster_id)
    _report("adding accounts, alerts, requests and audit")
    operator = add_person("operator", None, Role.PLATFORM_ADMIN)
    add_accounts(teams, list(User.objects.filter(username__startswith="team-")), max(tenants // 5, 5))
    add_alerts(teams, operator, jobs // 10)
    add_quota_work(cell, flavor, teams, 3 * tenants)
    add_replays(cell, teams, 50)
    add_audit(audit)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return {"readers": _readers(teams[0], operator), "names": _names(teams[0])}


def _report(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _add_tenants(count: int) -> list[Tenant]:
    """Add folders, folders below them, and workspaces, `count` in all with the root; return workspaces."""
    root = root_folder()
    upper = [new_tenant(root, TenantKind.FOLDER, f"department-{n:02d}") for n in range(_FOLDERS)]
    lower = [
        new_tenant(folder, TenantKind.FOLDER, f"{folder.slug}-{n}")
        for folder in upper
        for n in range(_BELOW_EACH)
    ]
    teams = [
        new_tenant(lower[n % len(lower)], TenantKind.WORKSPACE, f"team-{n:04d}")
        for n in range(max(count - 1 - len(upper) - len(lower), 5))
    ]
    Tenant.unscoped.bulk_create([*upper, *lower, *teams], batch_size=BATCH)
    return teams


def _readers(team: Tenant, operator: User) -> dict[str, dict[str, str]]:
    """Give a key and a password to the readers: the platform admin and an editor of the largest team."""
    found = {}
    for name, user in (("operator", operator), ("member", User.objects.get(username=f"{team.slug}-0"))):
        password = secrets.token_urlsafe(16)
        user.set_password(password)
        user.save()
        token = access_key_create(acting_user=SYSTEM, user=user, name="bench")[1]
        found[name] = {"username": user.username, "password": password, "token": token}
    return found


def _names(team: Tenant) -> dict[str, str]:
    """Return the values of the parameters of addresses."""
    job = Job.unscoped.filter(workspace=team, state="running").order_by("-submitted_at").first()
    node = Node.unscoped.order_by("name")[0]
    found: dict[str, Any] = {
        "ws": team.slug, "tenant": team.pk, "job": job.pk if job else "", "name": node.name,
        "node": QuotaNode.unscoped.get(tenant=team, is_queue=False).pk,
        "uuid": Device.unscoped.filter(node=node).order_by("index")[0].uuid,
        "group": Group.unscoped.order_by("name")[0].pk, "folder": team.parent_id,
    }  # fmt: skip
    return {name: str(value) for name, value in found.items()}


def main(words: Sequence[str]) -> None:
    """Build the installation with the numbers of the command line."""
    tenants, jobs, nodes, users, audit = (int(word) for word in words)
    sys.stdout.write(json.dumps(build_world(tenants, jobs, nodes, users, audit)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
