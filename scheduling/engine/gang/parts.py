"""This module models the parts of a job: the tasks that must start together, and the surplus above that
minimum.

A job is a tree of parts with roles in them. The minimum of a part is the least tasks of its own roles, at
least `min_available` of them, and as many parts below as `min_parts` says. Everything above the minimum is
surplus, added and released one step at a time. Source of the rules: Volcano's gang plug-in (job and task
minima) and KAI-Scheduler's sub-groups (nesting, and the order of growth).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from scheduling.engine.model import Job, Role, SubGang, TopologyRule

TaskCounts = Mapping[str, int]
"""Tasks per role name; an absent role has none."""


@dataclass(frozen=True, slots=True, eq=False)
class GangPart:
    """A node of the tree. `roles` belong directly to it, `parts` are below it; both in the job's order."""

    name: str
    roles: tuple[Role, ...] = ()
    parts: tuple[GangPart, ...] = ()
    min_available: int | None = None
    min_parts: int | None = None
    topology: TopologyRule | None = None

    def all_roles(self) -> Iterator[Role]:
        """Yield the roles of the part and of all parts below it."""
        for part in self.parts:
            yield from part.all_roles()
        yield from self.roles

    @property
    def parts_needed(self) -> int:
        """The number of parts below that must start."""
        return len(self.parts) if self.min_parts is None else min(self.min_parts, len(self.parts))


class PartsError(ValueError):
    """The parts form no tree, or a role names a part that does not exist."""


def build_part_tree(job: Job) -> GangPart:
    """Return the tree of a job; its root is the whole job.

    Raises:
        PartsError: when parts name a missing parent or form a ring, or a role a missing part.
    """
    if not job.sub_gangs and not any(role.sub_gang for role in job.roles):
        return GangPart(name="", roles=job.roles, topology=job.topology)
    named = {part.name: part for part in job.sub_gangs}
    for part in job.sub_gangs:
        if part.parent is not None and part.parent not in named:
            raise PartsError(f"job {job.id}: part {part.name} has no parent {part.parent}")
    for role in job.roles:
        if role.sub_gang and role.sub_gang not in named:
            raise PartsError(f"job {job.id}: role {role.name} names the missing part {role.sub_gang}")
    if len(_below(job, None, ())) < len(named):
        raise PartsError(f"job {job.id}: parts form a ring")
    return GangPart(
        name="",
        roles=tuple(role for role in job.roles if not role.sub_gang),
        parts=tuple(_build_part(job, part) for part in job.sub_gangs if part.parent is None),
        topology=job.topology,
    )


def _below(job: Job, parent: str | None, seen: tuple[str, ...]) -> tuple[str, ...]:
    for part in job.sub_gangs:
        if part.parent == parent and part.name not in seen:
            seen = _below(job, part.name, (*seen, part.name))
    return seen


def _build_part(job: Job, part: SubGang) -> GangPart:
    return GangPart(
        name=part.name,
        roles=tuple(role for role in job.roles if role.sub_gang == part.name),
        parts=tuple(_build_part(job, child) for child in job.sub_gangs if child.parent == part.name),
        min_available=part.min_available,
        min_parts=part.min_parts,
        topology=part.topology,
    )


class GangRules:
    """The size rules of one job. `counts` are tasks that run or have finished, by role."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.root = build_part_tree(job)

    def is_satisfied(self, counts: TaskCounts) -> bool:
        """Return whether these tasks form a gang that may run."""
        return not self.missing_minimum(counts)

    def missing_minimum(self, counts: TaskCounts, limits: TaskCounts | None = None) -> dict[str, int]:
        """Return the tasks that are missing to the smallest gang, by role; empty if the gang is complete.

        `limits` bounds the tasks of each role where the gang may choose between roles.
        """
        most = self._limits(limits)
        missing = _missing(self.root, counts, most)
        least = self.job.min_available
        while least is not None and _total(counts, missing) < least:
            step = _next_growth(self.root, _plus(counts, missing), most, frozenset())
            if step is None:
                # No role may grow within the limits, so the last role is asked for the missing tasks and
                # refused.
                short = self.job.roles[-1].name
                missing[short] = missing.get(short, 0) + least - _total(counts, missing)
                break
            missing = _plus(missing, step)
        return missing

    def next_step(
        self, counts: TaskCounts, limits: TaskCounts | None = None, barred: frozenset[str] = frozenset()
    ) -> dict[str, int] | None:
        """Return what a complete gang takes next: one task, or the minimum of a part that does not run yet.

        The part with the lowest ratio of placed tasks to its minimum comes first, then the role with the
        smallest fraction of its surplus, then the job's order. The result is None if nothing may grow;
        `barred` roles do not grow.
        """
        return _next_growth(self.root, counts, self._limits(limits), barred)

    def next_surplus_role(self, counts: TaskCounts) -> str | None:
        """Return the role of which one task may end while the gang stays complete; the reverse order of
        growth.

        The result is None if every task is needed, and if the gang is not complete.
        """
        if not self.is_satisfied(counts):
            return None
        return next(
            (
                role.name
                for role in _shrink_order(self.root, counts)
                if counts.get(role.name, 0) > role.ended
                and self.is_satisfied({**counts, role.name: counts[role.name] - 1})
            ),
            None,
        )

    def _limits(self, limits: TaskCounts | None) -> TaskCounts:
        return {role.name: role.replicas for role in self.job.roles} if limits is None else limits


def _total(counts: TaskCounts, more: TaskCounts) -> int:
    return sum(counts.values()) + sum(more.values())


def _plus(counts: TaskCounts, more: TaskCounts) -> dict[str, int]:
    names = dict.fromkeys((*counts, *more))
    return {name: counts.get(name, 0) + more.get(name, 0) for name in names}


def _missing(part: GangPart, counts: TaskCounts, limits: TaskCounts) -> dict[str, int]:
    missing = {
        role.name: role.min_count - counts.get(role.name, 0)
        for role in part.roles
        if role.min_count > counts.get(role.name, 0)
    }
    short = (part.min_available or 0) - sum(
        counts.get(role.name, 0) + missing.get(role.name, 0) for role in part.roles
    )
    for position, role in enumerate(part.roles):
        if short <= 0:
            break
        room = limits.get(role.name, 0) - counts.get(role.name, 0) - missing.get(role.name, 0)
        # Tasks that no role has limits for are asked of the last role, which is then refused.
        more = short if position == len(part.roles) - 1 else min(short, max(0, room))
        if more:
            missing[role.name] = missing.get(role.name, 0) + more
            short -= more
    below = [_missing(child, counts, limits) for child in part.parts]
    wanted = part.parts_needed - sum(not lacks for lacks in below)
    started = sorted(
        (index for index, lacks in enumerate(below) if lacks),
        key=lambda index: (
            not _allowed(below[index], counts, limits, frozenset()),
            not _count_placed(part.parts[index], counts),
            index,
        ),
    )
    for index in started[: max(0, wanted)]:
        missing = _plus(missing, below[index])
    return missing


def _count_placed(part: GangPart, counts: TaskCounts) -> int:
    return sum(counts.get(role.name, 0) for role in part.all_roles())


def _next_growth(
    part: GangPart, counts: TaskCounts, limits: TaskCounts, barred: frozenset[str]
) -> dict[str, int] | None:
    for child in sorted(part.parts, key=lambda child: _started_ratio(child, counts, limits)):
        lacks = _missing(child, counts, limits)
        step = lacks or _next_growth(child, counts, limits, barred)
        if step and _allowed(step, counts, limits, barred):
            return step
    for role in sorted(part.roles, key=lambda role: _filled_fraction(role, counts)):
        step = {role.name: 1}
        if _allowed(step, counts, limits, barred):
            return step
    return None


def _allowed(step: TaskCounts, counts: TaskCounts, limits: TaskCounts, barred: frozenset[str]) -> bool:
    return all(
        name not in barred and counts.get(name, 0) + more <= limits.get(name, 0)
        for name, more in step.items()
    )


def _started_ratio(part: GangPart, counts: TaskCounts, limits: TaskCounts) -> Fraction:
    if part.parts:
        placed = sum(not _missing(child, counts, limits) for child in part.parts)
        return Fraction(placed, max(1, part.parts_needed))
    placed = sum(counts.get(role.name, 0) for role in part.roles)
    return Fraction(placed, max(1, part.min_available or sum(role.min_count for role in part.roles)))


def _filled_fraction(role: Role, counts: TaskCounts) -> Fraction:
    surplus = role.replicas - role.min_count
    return Fraction(counts.get(role.name, 0) - role.min_count, surplus) if surplus else Fraction(1)


def _shrink_order(part: GangPart, counts: TaskCounts) -> Iterator[Role]:
    """Yield roles in the order in which they release tasks: the rest of an incomplete part first, because it
    is of no use."""

    def of_part(item: tuple[int, GangPart]) -> tuple[bool, Fraction, int]:
        return (_has_useless_tasks(item[1], counts), _started_ratio(item[1], counts, counts), item[0])

    def of_role(item: tuple[int, Role]) -> tuple[Fraction, int]:
        return (_filled_fraction(item[1], counts), item[0])

    for _, child in sorted(enumerate(part.parts), key=of_part, reverse=True):
        yield from _shrink_order(child, counts)
    for _, role in sorted(enumerate(part.roles), key=of_role, reverse=True):
        yield role


def _has_useless_tasks(part: GangPart, counts: TaskCounts) -> bool:
    """Return whether a part has tasks that are of no use without others that are not placed."""
    broken = bool(_missing(part, counts, counts)) and _count_placed(part, counts) > 0
    return broken or any(_has_useless_tasks(child, counts) for child in part.parts)
