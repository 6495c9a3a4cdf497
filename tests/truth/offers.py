"""Applies the recommendations for a pending job to a copy of the cell without other pending jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduling.engine import JobPut, QueuePut, Snapshot
from scheduling.engine.model import (
    GpuMode,
    Help,
    HelpCode,
    Job,
    JobOutcome,
    JobState,
    Quota,
    Reason,
    Role,
    StopPolicy,
    Toleration,
    TolerationOperator,
)
from tests.truth.oracle.cell import CARD_MEMORY, CARD_UNITS, CORES, CPU, MEMORY, Cell, least
from tests.truth.oracle.facts import Facts
from tests.truth.settle import Run, Unsettled

UNLIMITED = 10**12
KEYED = (Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED, Reason.EXCEEDS_MAX_QUOTA)


@dataclass(frozen=True)
class Taken:
    """The result of a recommendation.

    `holds`: what it names is no obstacle afterwards. `starts`: the job starts. `after`: the job's outcome
    otherwise. None if the recommendation can't be applied to this job.
    """

    holds: bool | None
    starts: bool | None = None
    after: JobOutcome | None = None


Edit = Callable[[Run, Cell, JobOutcome, Help], bool]
"""Applies a recommendation; returns False if it can change nothing in the job."""


def take(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> Taken:
    """Apply one recommendation of a job's outcome."""
    return take_all(run, cell, outcome, (offer,))


def take_all(run: Run, cell: Cell, outcome: JobOutcome, offers: tuple[Help, ...]) -> Taken:
    """Apply several recommendations of a job's outcome together."""
    copy = _alone(run, cell, outcome.job)
    for offer in offers:
        if not _EDITS[offer.code](copy, cell, outcome, offer):
            return Taken(None)
    try:
        if copy.starts(outcome.job):
            return Taken(holds=True, starts=True)
    except Unsettled:
        return Taken(holds=False, starts=False)
    after = next((each for each in copy.waiting() if each.job == outcome.job), None)
    if after is None:
        return Taken(holds=False, starts=False)
    return Taken(holds=not _same(outcome, after, offers), starts=False, after=after)


def _alone(run: Run, cell: Cell, name: str) -> Run:
    """Return a copy of the cell without the other pending jobs."""
    others = {job.id for job in cell.waiting() if job.id != name}
    snapshot = Snapshot(
        nodes=cell.nodes,
        flavors=cell.flavors.values(),
        quota_nodes=cell.quota_nodes.values(),
        queues=cell.queues.values(),
        jobs=[job for job in cell.jobs.values() if job.id not in others],
        allocations=cell.held,
        usage=run.snapshot.usage.values(),
        lost_ppm=cell.lost_ppm,
    )
    return Run(snapshot, now=run.now)


def _same(before: JobOutcome, after: JobOutcome, offers: tuple[Help, ...]) -> bool:
    """Return whether the obstacle is the same as before."""
    if after.reason is not before.reason:
        return False
    if before.reason is Reason.NEVER_FITS and offers[0].code is HelpCode.LOOSEN_PLACEMENT:
        rule = f"refused.{offers[0].numbers['veto']}"
        return rule in after.numbers
    # An outcome about guaranteed run times also names the quota that lacks, if any.
    keyed = before.reason in KEYED or "resource" in before.numbers
    return not keyed or all(
        before.numbers.get(name) == after.numbers.get(name) for name in ("flavor", "resource")
    )


# The effect of each recommendation


def _put(run: Run, job: Job) -> bool:
    changed = run.snapshot.jobs[job.id] != job
    if changed:
        run.put(JobPut(job))
    return changed


def _fewer_cards(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    job, cards = run.snapshot.jobs[outcome.job], int(offer.numbers["cards"])
    named = offer.numbers.get("role", outcome.numbers.get("role"))
    return _put(run, replace(job, roles=tuple(_with_cards(r, cards, named) for r in job.roles)))


def _with_cards(role: Role, cards: int, named: object) -> Role:
    gpu = role.request.gpu
    if gpu is None or gpu.cards <= cards or named not in (None, role.name):
        return role
    return replace(role, request=replace(role.request, gpu=replace(gpu, cards=cards)))


def _fewer_tasks(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    job, tasks = run.snapshot.jobs[outcome.job], int(offer.numbers["tasks"])
    roles = tuple(_sized(role, tasks) if role.name == offer.numbers["role"] else role for role in job.roles)
    return _put(run, replace(job, roles=roles))


def _sized(role: Role, tasks: int) -> Role:
    smallest = None if role.min_replicas is None else min(role.min_replicas, tasks)
    return replace(role, replicas=min(role.replicas, tasks), min_replicas=smallest)


def _less(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    """Apply the largest smaller request that stays useful, by fewer tasks and by less for each."""
    job = run.snapshot.jobs[outcome.job]
    key = (str(offer.numbers["flavor"]), str(offer.numbers["resource"]))
    limit = int(offer.numbers["limit"])
    if "role" in offer.numbers:
        each = int(offer.numbers.get("each", limit))
        roles = (_thin(r, key[1], each) if r.name == offer.numbers["role"] else r for r in job.roles)
        return _put(run, replace(job, roles=tuple(roles)))
    per_task = outcome.reason is Reason.NEVER_FITS
    for smaller in _smaller(job, key[1], limit, per_task=per_task):
        if _asked(cell, smaller, key, per_task=per_task) <= limit:
            return _put(run, smaller)
    return False


def _thin(role: Role, resource: str, limit: int) -> Role:
    """Return a role whose tasks ask for no more than this."""
    request, gpu = role.request, role.request.gpu
    if resource == CPU:
        return replace(role, request=replace(request, cpu=min(request.cpu, limit)))
    if resource == MEMORY:
        return replace(role, request=replace(request, memory=min(request.memory, limit)))
    if gpu is None or gpu.mode is not GpuMode.SLICE or limit < 1:
        return role
    less = {"cores": limit} if resource == CORES else {"memory": limit, "memory_percent": None}
    return replace(role, request=replace(request, gpu=replace(gpu, **less)))


def _asked(cell: Cell, job: Job, key: tuple[str, str], *, per_task: bool) -> int:
    flavor = cell.flavors[key[0]]
    found = [
        _amount(cell, job, role, flavor.id, key[1]) * (1 if per_task else least(role)) for role in job.roles
    ]
    return max(found) if per_task else sum(found)


def _amount(cell: Cell, job: Job, role: Role, flavor: str, resource: str) -> int:
    one = replace(job, roles=(replace(role, replicas=1, min_replicas=None),))
    way = next(w for w in Facts(cell, one).ways if w.flavors[0].id == flavor)
    charged = way.asked[flavor, resource]
    cards = 1 if role.request.gpu is None else role.request.gpu.cards
    return charged // cards if resource == CARD_MEMORY and role.request.gpu is not None else charged


def _smaller(job: Job, resource: str, limit: int, *, per_task: bool) -> Iterator[Job]:
    """Yield jobs that ask for less, from the largest down."""
    roles = job.roles
    if not per_task:
        for tasks in range(max(least(role) for role in roles), 0, -1):
            yield replace(job, roles=tuple(_sized(role, tasks) for role in roles))
        roles = tuple(_sized(role, 1) for role in roles)
    if resource in (CPU, MEMORY):
        field = "cpu" if resource == CPU else "memory"
        shares = (limit // (1 if per_task else len(roles)),)
        for share in shares:
            less = tuple(
                replace(r, request=replace(r.request, **{field: min(getattr(r.request, field), share)}))
                for r in roles
            )
            yield replace(job, roles=less)
        return
    most = max((r.request.gpu.cards for r in roles if r.request.gpu), default=0)
    for cards in range(most, 0, -1):
        fewer = tuple(_with_cards(role, cards, None) for role in roles)
        yield replace(job, roles=fewer)
    yield from _thinner(job, roles, resource, limit)


def _thinner(job: Job, roles: tuple[Role, ...], resource: str, limit: int) -> Iterator[Job]:
    """Yield jobs with one card for each task, and less of it."""
    sliced = [r for r in roles if r.request.gpu is not None and (r.request.gpu.cores or r.request.gpu.memory)]
    if not limit or not sliced or resource not in (CORES, CARD_MEMORY):
        return
    less: dict[str, Any] = {"cards": 1}
    if resource == CORES:
        less["cores"] = limit // len(sliced)
    else:
        less |= {"memory": limit // len(sliced), "memory_percent": None}
    if not all(value is None or value > 0 for value in less.values()):
        return
    thin = tuple(
        replace(r, request=replace(r.request, gpu=replace(r.request.gpu, **less))) if r in sliced else r
        for r in roles
    )
    yield replace(job, roles=thin)


def _other_model(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    job, models = run.snapshot.jobs[outcome.job], tuple(str(offer.numbers["models"]).split(","))
    named = offer.numbers.get("role", outcome.numbers.get("role"))

    def other(role: Role) -> Role:
        gpu = role.request.gpu
        if gpu is None or named not in (None, role.name):
            return role
        return replace(role, request=replace(role.request, gpu=replace(gpu, models=models)))

    return _put(run, replace(job, roles=tuple(map(other, job.roles))))


def _other_profile(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    job, profile = run.snapshot.jobs[outcome.job], str(offer.numbers["profiles"]).split(",")[0]
    named = offer.numbers.get("role", outcome.numbers.get("role"))

    def other(role: Role) -> Role:
        gpu = role.request.gpu
        if gpu is None or named not in (None, role.name):
            return role
        return replace(role, request=replace(role.request, gpu=replace(gpu, profile=profile)))

    return _put(run, replace(job, roles=tuple(map(other, job.roles))))


_LOOSER: Mapping[str, Mapping[str, Any]] = {
    "node-name": {"node_name": None},
    "node-selector": {"node_selector": {}},
    "node-affinity": {"node_affinity": ()},
    "taint": {"tolerations": (Toleration(operator=TolerationOperator.EXISTS),)},
}


def _loosen(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    job, less = run.snapshot.jobs[outcome.job], _LOOSER[str(offer.numbers["veto"])]
    roles = tuple(r if r.rules is None else replace(r, rules=replace(r.rules, **less)) for r in job.roles)
    return _put(run, replace(job, rules=replace(job.rules, **less), roles=roles))


def _preemptible(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    return _put(run, replace(run.snapshot.jobs[outcome.job], preemptible=True))


def _resume(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    return _put(run, replace(run.snapshot.jobs[outcome.job], state=JobState.QUEUED))


def _open(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    queue = run.snapshot.queues[str(offer.numbers["queue"])]
    run.put(QueuePut(replace(queue, stop_policy=StopPolicy.NONE)))
    return True


def raise_quota(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    queue = cell.queues[str(offer.numbers["queue"])]
    node = next(node for node in run.snapshot.export_quota_nodes() if node.id == queue.quota_node)
    key = (offer.numbers["flavor"], offer.numbers["resource"])
    quotas = [q for q in node.quotas if (q.flavor, q.resource) != key]
    known = next((q for q in node.quotas if (q.flavor, q.resource) == key), None)
    known = known or Quota(flavor=str(key[0]), resource=str(key[1]), own_nominal=0)
    if known.own_nominal is None:
        return False
    quotas.append(replace(known, own_nominal=known.own_nominal + int(offer.numbers["short"])))
    run.limit(replace(node, quotas=tuple(quotas)))
    return True


def _release(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    """End running jobs until the amount is available: of the own queue first if its own quota is used up,
    of other queues if these hold it."""
    key = (str(offer.numbers["flavor"]), str(offer.numbers["resource"]))
    job, short = cell.jobs[outcome.job], int(offer.numbers["short"])
    own_first = outcome.reason is Reason.WAITING_FOR_QUOTA
    free = _unused if "rule" in outcome.numbers else _available
    before, cell = free(cell, job, key), run.cell()
    freed = free(cell, job, key)
    while freed - before < short:
        gains = []
        for name, held in cell.holds.items():
            gain = free(cell.without(name), job, key) - freed if held[key] else 0
            if gain > 0:
                gains.append(((cell.jobs[name].queue == job.queue) is not own_first, gain, name))
        if not gains:
            return False
        name = min(gains)[2]
        cell = cell.without(name)
        freed = free(cell, job, key)
        run.end(name)
    return True


def _unused(cell: Cell, job: Job, key: tuple[str, str]) -> int:
    """Return what is unused of a quota in the whole tree, of which a rule reserves a part: releases of the
    own queue don't count. For other resources, return what is available."""
    facts = Facts(cell, job)
    root = facts.tree.root(facts.leaf)
    owned = facts.tree.owned(root, key)
    if owned is None or key[1] not in CARD_UNITS:
        return _available(cell, job, key)
    return owned - facts.tree.usage(root, key)


def _available(cell: Cell, job: Job, key: tuple[str, str]) -> int:
    found = Facts(cell, job).available(key)
    return UNLIMITED if found is None else found


def _wait(run: Run, cell: Cell, outcome: JobOutcome, offer: Help) -> bool:
    run.now = max(run.now, float(offer.numbers["at"]))
    return True


_EDITS: Mapping[HelpCode, Edit] = {
    HelpCode.ASK_FEWER_CARDS: _fewer_cards,
    HelpCode.ASK_FEWER_TASKS: _fewer_tasks,
    HelpCode.ASK_LESS: _less,
    HelpCode.ASK_OTHER_MODEL: _other_model,
    HelpCode.ASK_OTHER_PROFILE: _other_profile,
    HelpCode.LOOSEN_PLACEMENT: _loosen,
    HelpCode.MAKE_PREEMPTIBLE: _preemptible,
    HelpCode.OPEN_QUEUE: _open,
    HelpCode.RAISE_QUOTA: raise_quota,
    HelpCode.RESUME: _resume,
    HelpCode.WAIT_FOR_RELEASE: _release,
    HelpCode.WAIT_UNTIL: _wait,
}
