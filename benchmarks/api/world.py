"""A large installation in rows: tenants, queues, people, and a year of jobs, filled in bulk.

The spread is uneven as in life: a tenth of the jobs belongs to the biggest team, most of them are young and
nearly all have ended. Run as `python -m benchmarks.api.world TENANTS QUEUES JOBS` in the platform's
environment; prints what the measurement needs as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from django.db import connection

from benchmarks.world import root_folder, simulated  # isort: skip (it sets Django up)
from clusters.models import Cell, Flavor
from foundation.actor import SYSTEM
from foundation.identifiers import new_id
from foundation.quantities import Resource
from quotas.models import Queue, QueueFlavor, Quota, QuotaNode
from quotas.services.quota import quota_node_ensure
from scheduling.models import Job, JobRole, PriorityClass, Task
from scheduling.services.job import job_submit
from scheduling.spec import parse_job
from tenants.models import Member, Role, Tenant, TenantKind, User
from tenants.services.access_key import access_key_create

FOLDERS: Final = 25
PEOPLE: Final = 5
NODES: Final = 200
CARDS: Final = 8
_BATCH: Final = 5000
_NONE: Final = "!"  # no password has this hash

# A job each: where, whose, since when and how it stands. The cube makes the first queues the busy ones.
_SEEDS: Final = """
CREATE TEMPORARY TABLE seed AS
SELECT n, at, p.queue_id, p.workspace_id, person.user_id,
    CASE WHEN fate < 0.010 THEN 'queued' WHEN fate < 0.012 THEN 'suspended' WHEN fate < 0.022 THEN 'running'
         WHEN fate < 0.750 THEN 'succeeded' WHEN fate < 0.920 THEN 'failed' ELSE 'cancelled' END AS state,
    (ARRAY['train', 'tune', 'eval', 'sweep', 'embed', 'serve'])[1 + n %% 6] || '-' ||
    (ARRAY['llama', 'resnet', 'bert', 'vit', 'whisper', 'clip', 'gpt'])[1 + n %% 7] || '-' ||
    to_hex(n) AS name,
    (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3)
     || '8' || substr(md5(n::text), 4, 15))::uuid AS id
FROM (
    SELECT n, random() AS fate, floor(%(queues)s * power(random(), 3)) AS place,
        1 + floor(%(people)s * power(random(), 2)) AS person,
        now() - power(random(), 2) * interval '365 days' AS at
    FROM generate_series(1, %(jobs)s) n
) draw
JOIN (SELECT row_number() OVER (ORDER BY t.slug, q.name) - 1 AS place, q.id AS queue_id, q.workspace_id
      FROM quotas_queue q JOIN tenants_tenant t ON t.id = q.workspace_id) p USING (place)
JOIN (SELECT row_number() OVER (PARTITION BY tenant_id ORDER BY id) AS person, tenant_id, user_id
      FROM tenants_member WHERE tenant_id IS NOT NULL) person
  ON person.tenant_id = p.workspace_id AND person.person = draw.person
"""
_LIVE: Final = "('queued', 'suspended', 'running')"
_JOB: Final = {
    "id": "s.id",
    "created_at": "s.at",
    "workspace_id": "s.workspace_id",
    "queue_id": "s.queue_id",
    "submitted_by_id": "s.user_id",
    "name": "s.name",
    "state": "s.state",
    "submitted_at": "s.at",
    "reason": "CASE WHEN s.state = 'queued' THEN 'NO_QUOTA' ELSE '' END",
    "reason_at": "CASE WHEN s.state = 'queued' THEN s.at END",
    "admitted_at": "CASE WHEN s.state NOT IN ('queued', 'suspended') THEN s.at + interval '3 minutes' END",
    "started_at": "CASE WHEN s.state NOT IN ('queued', 'suspended') THEN s.at + interval '4 minutes' END",
    "finished_at": f"CASE WHEN s.state NOT IN {_LIVE} THEN s.at + interval '2 hours' END",
    "end_reason": "CASE s.state WHEN 'failed' THEN 'TASK_FAILED' WHEN 'cancelled' THEN 'CANCELLED' "
    "ELSE '' END",
}
_ROLE: Final = {"id": "gen_random_uuid()", "created_at": "s.at", "job_id": "s.id"}
_TASK: Final = {
    "id": "gen_random_uuid()",
    "created_at": "s.at",
    "job_id": "s.id",
    "role_id": "r.id",
    "state": "CASE WHEN s.state IN ('queued', 'suspended') THEN 'waiting' "
    "WHEN s.state = 'running' THEN 'running' ELSE 'succeeded' END",
}


def build(tenants: int, queues: int, jobs: int) -> dict[str, Any]:
    """Make everything; returns addresses, names and tokens by what they are for."""
    cell, flavor = simulated(NODES, CARDS)
    teams = _tenants(tenants)
    _people(teams)
    _queues(cell, flavor, teams, queues)
    PriorityClass.unscoped.get_or_create(name="normal", defaults={"value": 0})
    _jobs(teams[0], queues, jobs)
    return {
        "teams": [_team(teams[0]), _team(teams[len(teams) // 10]), _team(teams[len(teams) // 2])],
        "admin": _token(_person("operator", None, Role.PLATFORM_ADMIN)),
    }


def _tenants(count: int) -> list[Tenant]:
    root = root_folder()
    folders = [_tenant(root, TenantKind.FOLDER, f"department-{n:02d}") for n in range(FOLDERS)]
    teams = [_tenant(folders[n % FOLDERS], TenantKind.WORKSPACE, f"team-{n:04d}") for n in range(count)]
    Tenant.unscoped.bulk_create([*folders, *teams], batch_size=_BATCH)
    return teams


def _tenant(parent: Tenant, kind: TenantKind, slug: str) -> Tenant:
    tenant = Tenant(id=new_id(), parent=parent, kind=kind, slug=slug, name=slug.title())
    tenant.path = f"{parent.path}{tenant.id}/"
    return tenant


def _people(teams: list[Tenant]) -> None:
    users = [
        (team, User(username=f"{team.slug}-{number}", password=_NONE))
        for team in teams
        for number in range(PEOPLE)
    ]
    User.objects.bulk_create([user for _, user in users], batch_size=_BATCH)
    members = [Member(user=user, tenant=team, role=Role.EDITOR) for team, user in users]
    Member.unscoped.bulk_create(members, batch_size=_BATCH)


def _person(name: str, tenant: Tenant | None, role: Role) -> User:
    user: User = User.objects.create(username=name, password=_NONE)
    Member.unscoped.create(user=user, tenant=tenant, role=role)
    return user


def _queues(cell: Cell, flavor: Flavor, teams: list[Tenant], count: int) -> None:
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
        Quota(node=leaf, flavor=flavor, resource=resource, nominal=amount)
        for leaf in leaves
        for resource, amount in limits.items()
    )
    Quota.unscoped.bulk_create(quotas, batch_size=_BATCH)


def _jobs(team: Tenant, queues: int, jobs: int) -> None:
    """Write the jobs in the likeness of one that was submitted, so that every column has a sane value."""
    owner = User.objects.get(username=f"{team.slug}-0")
    spec = parse_job({
        "name": "likeness", "queue": "queue-0",
        "roles": [{"image": "train:1", "command": ["python", "train.py"],
                   "resources": {"cpu": 8, "memory": "64Gi", "gpu": {"cards": 1}}}],
    })  # fmt: skip
    job = job_submit(acting_user=owner, workspace=team, spec=spec)
    with connection.cursor() as cursor:
        cursor.execute(_SEEDS, {"queues": queues, "people": PEOPLE, "jobs": jobs})
        cursor.execute(_copies(Job, _JOB, f"WHERE t.id = '{job.pk}'"))
        cursor.execute(_copies(JobRole, _ROLE, f"WHERE t.job_id = '{job.pk}'"))
        roles = f"JOIN scheduling_jobrole r ON r.job_id = s.id WHERE t.job_id = '{job.pk}'"
        cursor.execute(_copies(Task, _TASK, roles))
        cursor.execute("VACUUM ANALYZE")


def _copies(model: Any, own: dict[str, str], where: str) -> str:
    columns = [field.column for field in model._meta.concrete_fields]
    values = ", ".join(own.get(column, f't."{column}"') for column in columns)
    table, names = model._meta.db_table, ", ".join(f'"{column}"' for column in columns)
    return f"INSERT INTO {table} ({names}) SELECT {values} FROM seed s CROSS JOIN {table} t {where}"  # noqa: S608


def _team(team: Tenant) -> dict[str, Any]:
    owner = User.objects.get(username=f"{team.slug}-0")
    return {
        "slug": team.slug,
        "owner": owner.username,
        "token": _token(owner),
        "jobs": [str(pk) for pk in Job.unscoped.filter(workspace=team).values_list("pk", flat=True)[:200]],
        "names": list(Job.unscoped.filter(workspace=team).values_list("name", flat=True)[:200]),
    }


def _token(user: User) -> str:
    return access_key_create(acting_user=SYSTEM, user=user, name="bench")[1]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(build(*(int(word) for word in sys.argv[1:4]))) + "\n")
