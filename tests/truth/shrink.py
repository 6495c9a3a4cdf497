"""The smallest world that still shows a fault, and its text as Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from enum import Enum
from time import monotonic
from typing import Any

from scheduling.engine.model import Fungibility, Job, JobState, Node, PlacementRules, Queue, QuotaNode, Role
from tests.truth.worlds import World

Shows = Callable[[World], bool]


def shrunk(world: World, shows: Shows, *, seconds: float = 90) -> World:
    """A world with less in it that still `shows` what this one does; tries others for so long at most."""
    end = monotonic() + seconds
    smaller = True
    while smaller:
        smaller = False
        for other in _smaller(world):
            if monotonic() > end:
                break
            if shows(other):
                world, smaller = other, True
                break
    return world


def _smaller(world: World) -> Iterator[World]:
    """Worlds with one thing less, large things first."""
    if world.lowered:
        yield replace(world, lowered=())
    for queue in world.queues:
        yield _without_queue(world, queue)
    for number, wave in enumerate(world.waves):
        for half in (wave[: len(wave) // 2], wave[len(wave) // 2 :]):
            if len(wave) > 2 and half:
                yield _with_wave(world, number, half)
        for at in range(len(wave)):
            yield _with_wave(world, number, wave[:at] + wave[at + 1 :])
    if len(world.waves) > 1:
        yield replace(world, waves=(tuple(job for wave in world.waves for job in wave),))
    for name in world.ended:
        yield replace(world, ended=tuple(other for other in world.ended if other != name))
    for name in world.cordoned:
        yield replace(world, cordoned=tuple(other for other in world.cordoned if other != name))
    for node in world.nodes:
        if node.id in world.cordoned:
            continue
        yield replace(world, nodes=tuple(other for other in world.nodes if other.id != node.id))
    yield from _of_quota(world)
    yield from _of_parts(world)


def _of_parts(world: World) -> Iterator[World]:
    for number, wave in enumerate(world.waves):
        for at, job in enumerate(wave):
            for other in _plainer_job(job):
                yield _with_wave(world, number, (*wave[:at], other, *wave[at + 1 :]))
    for at, node in enumerate(world.nodes):
        for simpler in _plainer_node(node):
            yield replace(world, nodes=(*world.nodes[:at], simpler, *world.nodes[at + 1 :]))
    for at, queue in enumerate(world.queues):
        for plain in _plainer_queue(queue):
            yield replace(world, queues=(*world.queues[:at], plain, *world.queues[at + 1 :]))


def _with_wave(world: World, number: int, wave: tuple[Job, ...]) -> World:
    return replace(world, waves=(*world.waves[:number], wave, *world.waves[number + 1 :]))


def _without_queue(world: World, queue: Queue) -> World:
    waves = tuple(tuple(job for job in wave if job.queue != queue.id) for wave in world.waves)
    return replace(world, queues=tuple(q for q in world.queues if q.id != queue.id), waves=waves)


def _of_quota(world: World) -> Iterator[World]:
    used = {queue.quota_node for queue in world.queues} | {node.parent for node in world.quota_nodes}
    for node in world.quota_nodes:
        if node.id not in used and node.parent is not None:
            yield _with_quota(world, node, None)
    names = sorted({quota.flavor for node in world.quota_nodes for quota in node.quotas})
    for name in names:
        if len(names) > 1:
            yield _without_flavor(world, name)
    for node in world.quota_nodes:
        for quota in node.quotas:
            others = tuple(q for q in node.quotas if q is not quota)
            yield _with_quota(world, node, replace(node, quotas=others))
            for limit in ("borrowing_limit", "lending_limit", "own_nominal"):
                if getattr(quota, limit) is not None:
                    free = tuple(replace(q, **{limit: None}) if q is quota else q for q in node.quotas)
                    yield _with_quota(world, node, replace(node, quotas=free))


def _without_flavor(world: World, name: str) -> World:
    """The world without a pool, its machines and all that names it."""

    def less(nodes: tuple[QuotaNode, ...]) -> tuple[QuotaNode, ...]:
        return tuple(replace(n, quotas=tuple(q for q in n.quotas if q.flavor != name)) for n in nodes)

    return replace(
        world,
        flavors=tuple(flavor for flavor in world.flavors if flavor.id != name),
        nodes=tuple(node for node in world.nodes if node.labels.get("pool") != name),
        quota_nodes=less(world.quota_nodes),
        lowered=less(world.lowered),
        queues=tuple(replace(q, flavors=tuple(f for f in q.flavors if f != name)) for q in world.queues),
    )


def _with_quota(world: World, node: QuotaNode, other: QuotaNode | None) -> World:
    kept = tuple(other if each is node else each for each in world.quota_nodes)
    lowered = tuple(each for each in world.lowered if other is not None or each.id != node.id)
    return replace(world, quota_nodes=tuple(each for each in kept if each is not None), lowered=lowered)


_PLAIN_JOB: tuple[dict[str, Any], ...] = (
    {"rules": PlacementRules()}, {"priority": 0}, {"min_run_s": None}, {"max_run_s": None},
    {"evictions": 0}, {"preemptible": True}, {"checkpoint_interval_s": None}, {"backoff_until": None},
    {"state": JobState.QUEUED}, {"user": ""}, {"topology": None},
)  # fmt: skip


def _plainer_job(job: Job) -> Iterator[Job]:
    for facts in _PLAIN_JOB:
        plain = replace(job, **facts)
        if plain != job:
            yield plain
    for role in job.roles:
        if len(job.roles) > 1:
            yield replace(job, roles=tuple(other for other in job.roles if other is not role))
        for other in _plainer_role(role):
            yield replace(job, roles=tuple(other if each is role else each for each in job.roles))


def _plainer_role(role: Role) -> Iterator[Role]:
    request = role.request
    if role.min_replicas is not None:
        yield replace(role, min_replicas=None)
    if role.replicas > 1 and (role.min_replicas is None or role.min_replicas < role.replicas):
        yield replace(role, replicas=role.replicas - 1)
    for field in ("cpu", "memory"):
        if getattr(request, field):
            yield replace(role, request=replace(request, **{field: 0}))
    if request.extended:
        yield replace(role, request=replace(request, extended=()))
    if request.gpu is not None:
        if request.gpu.models:
            yield replace(role, request=replace(request, gpu=replace(request.gpu, models=())))
        if request.gpu.cards > 1:
            fewer = replace(request.gpu, cards=request.gpu.cards - 1)
            yield replace(role, request=replace(request, gpu=fewer))


def _plainer_node(node: Node) -> Iterator[Node]:
    if node.taints:
        yield replace(node, taints=())
    if not node.schedulable:
        yield replace(node, schedulable=True)
    for facts in ({"ready": True}, {"pods": None}, {"used_cpu": 0}, {"used_memory": 0}):
        plain = replace(node, **facts)
        if plain != node:
            yield plain
    if len(node.devices) > 1:
        yield replace(node, devices=node.devices[: len(node.devices) // 2])
        yield replace(node, devices=node.devices[:-1])


def _plainer_queue(queue: Queue) -> Iterator[Queue]:
    blank = Queue(id=queue.id, quota_node=queue.quota_node)
    for field in fields(Queue):
        if field.name in ("id", "quota_node", "flavors", "fungibility"):
            continue
        plain = replace(queue, **{field.name: getattr(blank, field.name)})
        if plain != queue:
            yield plain
    if queue.fungibility != Fungibility():
        yield replace(queue, fungibility=Fungibility())
    if len(queue.flavors) > 1:
        for name in queue.flavors:
            yield replace(queue, flavors=tuple(other for other in queue.flavors if other != name))


# As text


def text_of(thing: object, indent: str = "") -> str:
    """A thing of the engine's model as Python that makes it again, without what is so by default."""
    deeper = indent + "    "
    if isinstance(thing, Enum):
        return f"{type(thing).__name__}.{thing.name}"
    if isinstance(thing, tuple) and not hasattr(thing, "_fields"):
        inner = "".join(f"\n{deeper}{text_of(each, deeper)}," for each in thing)
        short = f"({''.join(text_of(each) + ', ' for each in thing).rstrip()})"
        return short if len(short) < 90 and "\n" not in short else f"({inner}\n{indent})"
    if not is_dataclass(thing):
        return repr(thing)
    given = [(field, getattr(thing, field.name)) for field in fields(thing) if field.init]
    parts = [f"{field.name}={text_of(value, deeper)}" for field, value in given if value != _default(field)]
    short = f"{type(thing).__name__}({', '.join(parts)})"
    if len(indent) + len(short) < 100 and "\n" not in short:
        return short
    return f"{type(thing).__name__}(" + "".join(f"\n{deeper}{part}," for part in parts) + f"\n{indent})"


def _default(field: Field[Any]) -> object:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else MISSING
