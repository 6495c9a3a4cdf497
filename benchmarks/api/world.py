"""A large installation in rows: tenants, queues, users, and a year of jobs, filled in bulk.

The distribution is uneven, as in real installations: a tenth of the jobs belongs to the biggest team, most
jobs are recent and nearly all have ended. Run as `python -m benchmarks.api.world TENANTS QUEUES JOBS` in the
platform's environment; prints the input of the measurement as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from benchmarks.support.world import root_folder, build_simulated_cell  # isort: skip (it sets Django up)
from benchmarks.api.filling import fill_jobs
from clusters.models import Cell, Flavor
from foundation.core.actor import SYSTEM
from foundation.core.identifiers import new_id
from foundation.core.quantities import Resource
from quotas.models import Queue, QueueFlavor, Quota, QuotaNode
from quotas.services.quota import quota_node_ensure
from scheduling.job_file import parse_job
from scheduling.models import Job, PriorityClass
from scheduling.services.jobs.job import job_submit
from tenants.models import Member, Role, Tenant, TenantKind, User
from tenants.services.access_key import access_key_create

FOLDERS: Final = 25
PEOPLE: Final = 5
NODES: Final = 200
CARDS: Final = 8
_BATCH: Final = 5000
NO_HASH: Final = "!"  # the hash of no password


def build_world(tenants: int, queues: int, jobs: int) -> dict[str, Any]:
    """Create everything; return the users and teams of the requests, and their part out of ten (`share`)."""
    _report("making tenants and queues")
    cell, flavor = build_simulated_cell(NODES, CARDS)
    teams = _tenants(tenants)
    add_people(teams)
    add_queues(cell, flavor, teams, queues)
    for name, value in (("normal", 0), ("high", 100)):
        PriorityClass.unscoped.get_or_create(name=name, defaults={"value": value})
    fill_jobs(submit_likeness(teams[0]), queues=queues, people=PEOPLE, jobs=jobs, report=_report)
    big, middle, small = teams[0], teams[len(teams) // 10], teams[len(teams) // 2]
    head = add_person("head", big.parent, Role.ADMIN)
    operator = add_person("operator", None, Role.PLATFORM_ADMIN)
    asked = [(big, _owner(big), 4), (middle, _owner(middle), 3), (small, _owner(small), 1)]
    # For users with roles above the team the row policies have to check more tenants.
    asked += [(big, head, 1), (big, operator, 1)]
    return {"teams": [_team(team, user, share) for team, user, share in asked]}


def _report(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _tenants(count: int) -> list[Tenant]:
    root = root_folder()
    folders = [new_tenant(root, TenantKind.FOLDER, f"department-{n:02d}") for n in range(FOLDERS)]
    teams = [new_tenant(folders[n % FOLDERS], TenantKind.WORKSPACE, f"team-{n:04d}") for n in range(count)]
    Tenant.unscoped.bulk_create([*folders, *teams], batch_size=_BATCH)
    return teams


def new_tenant(parent: Tenant, kind: TenantKind, slug: str) -> Tenant:
    tenant = Tenant(id=new_id(), parent=parent, kind=kind, slug=slug, name=slug.title())
    tenant.path = f"{parent.path}{tenant.id}/"
    return tenant


def add_people(teams: list[Tenant]) -> None:
    users = [
        (team, User(username=f"{team.slug}-{number}", password=NO_HASH))
        for team in teams
        for number in range(PEOPLE)
    ]
    User.objects.bulk_create([user for _, user in users], batch_size=_BATCH)
    members = [Member(user=user, tenant=team, role=Role.EDITOR) for team, user in users]
    Member.unscoped.bulk_create(members, batch_size=_BATCH)


def add_person(name: str, tenant: Tenant | None, role: Role) -> User:
    user: User = User.objects.create(username=name, password=NO_HASH)
    Member.unscoped.create(user=user, tenant=tenant, role=role)
    return user


def add_queues(cell: Cell, flavor: Flavor, teams: list[Tenant], count: int) -> None:
    parents = {team.pk: quota_node_ensure(acting_user=SYSTEM, cell=cell, tenant=team) for team in teams}
    each = [teams[number % len(teams)] for number in range(count)]
    leaves = [QuotaNode(cell=cell, tenant=team, parent=parents[team.pk], is_queue=True) for team in each]
    QuotaNode.unscoped.bulk_create(leaves, batch_size=_BATCH)
    queues = [
        Queue(cell=cell, workspace=leaf.tenant, node=leaf, name=f"queue-{number // len(teams)}")
        for number, leaf in enumerate(leaves)
    ]
    Queue.unscoped.bulk_create(queues, batch_size=_BATCH)
    rows = (QueueFlavor(queue=queue, flavor=flavor, position=0) for queue in queues)
    QueueFlavor.unscoped.bulk_create(rows, batch_size=_BATCH)
    amounts = {Resource.GPU_CARDS: 1, Resource.GPU_CORES: 100, Resource.GPU_MEMORY: flavor.card_memory_mib}
    limits: dict[Resource, int | None] = {**amounts, Resource.CPU: None, Resource.MEMORY: None}
    quotas = (
        Quota(node=leaf, flavor=flavor, resource=resource, own_nominal=amount)
        for leaf in leaves
        for resource, amount in limits.items()
    )
    Quota.unscoped.bulk_create(quotas, batch_size=_BATCH)


def submit_likeness(team: Tenant) -> Job:
    """Submit a job, so that every column of its copies has a realistic value."""
    spec = parse_job({
        "name": "likeness", "queue": "queue-0",
        "roles": [{"image": "train:1", "command": ["python", "train.py"],
                   "resources": {"cpu": 8, "memory": "64Gi", "gpu": {"cards": 1}}}],
    })  # fmt: skip
    return job_submit(acting_user=_owner(team), workspace=team, spec=spec)


def _owner(team: Tenant) -> User:
    found: User = User.objects.get(username=f"{team.slug}-0")
    return found


def _team(team: Tenant, user: User, share: int) -> dict[str, Any]:
    newest = Job.unscoped.filter(workspace=team).order_by("-submitted_at")[:200].values_list("pk", "name")
    return {
        "slug": team.slug,
        "token": _token(user),
        "share": share,
        "jobs": [str(pk) for pk, _ in newest],
        "names": [name for _, name in newest],
    }


def _token(user: User) -> str:
    return access_key_create(acting_user=SYSTEM, user=user, name="bench")[1]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(build_world(*(int(word) for word in sys.argv[1:4]))) + "\n")
