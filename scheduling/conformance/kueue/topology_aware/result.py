"""The domains of a role's tasks, or the reason and numbers of a failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from scheduling.conformance.kueue.topology_aware.tree import Path
from scheduling.engine.model import Taint


@dataclass(frozen=True, slots=True)
class SliceLayer:
    """A layer of slices: every `size` tasks share one domain of `level`, a node label."""

    level: str
    size: int


class Share(NamedTuple):
    """The number of tasks of a role in one leaf domain, which is identified by its key."""

    domain: Path
    tasks: int


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of all tasks of a role: one share for each leaf, in the order of the leaves' paths.

    `levels` are the node labels whose values are the keys of the shares.
    """

    levels: tuple[str, ...]
    shares: tuple[Share, ...]

    @property
    def tasks(self) -> int:
        """The number of placed tasks."""
        return sum(share.tasks for share in self.shares)

    def first_tasks(self, tasks: int) -> Placement:
        """Return the placement of the first `tasks` tasks, in the order of the shares."""
        remaining: list[Share] = []
        for share in self.shares:
            if tasks <= 0:
                break
            remaining.append(Share(share.domain, min(share.tasks, tasks)))
            tasks -= share.tasks
        return Placement(self.levels, tuple(remaining))

    def without_domain(self, domain: str) -> Placement:
        """Return the placement without the leaf whose last label value is `domain`."""
        return Placement(self.levels, tuple(share for share in self.shares if share.domain[-1] != domain))


class Usage(NamedTuple):
    """The usage of `tasks` tasks with `per_task` units each in the leaf domain with this key."""

    domain: Path
    per_task: Mapping[str, int]
    tasks: int


def usage_of(placement: Placement, per_task: Mapping[str, int]) -> list[Usage]:
    """Return the usage of a placement in each leaf."""
    return [Usage(share.domain, per_task, share.tasks) for share in placement.shares]


class Misfit(StrEnum):
    """The reason why there is no placement. All but the last four are errors in the request."""

    NO_SLICE_SIZE = "no-slice-size"
    UNKNOWN_LEVEL = "unknown-level"
    UNKNOWN_SLICE_LEVEL = "unknown-slice-level"
    UNKNOWN_LAYER_LEVEL = "unknown-layer-level"
    SLICE_LEVEL_TOO_COARSE = "slice-level-too-coarse"
    LAYER_NOT_FINER = "layer-not-finer"
    LAYER_DOES_NOT_DIVIDE = "layer-does-not-divide"
    UNEVEN_SLICES = "uneven-slices"
    NOT_ONE_LEADER = "not-one-leader"
    NO_DOMAINS = "no-domains"
    NO_ROOM = "no-room"
    STALE_PLACEMENT = "stale-placement"
    NO_REPLACEMENT = "no-replacement"


class LayerRoom(NamedTuple):
    """The number of groups of a slice layer that fit in the best domain, and how many are needed."""

    level: str
    fitting: int
    needed: int


@dataclass(slots=True)
class Exclusions:
    """The numbers of excluded leaves by reason; each leaf counts once, for the first rule that excluded
    it."""

    leaves: int = 0
    selector: int = 0
    affinity: int = 0
    outside: int = 0
    taints: dict[Taint, int] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Exclusions:
        """Return a copy of the counts, which can be changed."""
        return Exclusions(
            self.leaves, self.selector, self.affinity, self.outside, dict(self.taints), dict(self.resources)
        )

    def has_any(self) -> bool:
        """Return whether any leaf was excluded."""
        return bool(self.selector or self.affinity or self.outside or self.taints or self.resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure of a placement. `fitting` of `needed` slices of `slice_size` tasks would fit at `level`.

    `layers` has the numbers of each slice layer if there are several. `level` and `other` are node labels, or
    the domain that no longer exists, depending on `misfit`.
    """

    misfit: Misfit = field(kw_only=False)
    fitting: int = 0
    needed: int = 0
    slice_size: int = 1
    level: str = ""
    other: str = ""
    layers: tuple[LayerRoom, ...] = ()
    exclusions: Exclusions = field(default_factory=Exclusions)

    @staticmethod
    def of_stale(domain: str) -> Failure:
        """Return the failure for a domain of placed tasks that no longer exists."""
        return Failure(Misfit.STALE_PLACEMENT, level=domain)


RoleOutcome = Placement | Failure


def join_shares(levels: tuple[str, ...], shares: Iterable[tuple[int, Share]]) -> Placement:
    """Return a placement from shares with their leaf numbers, sorted; shares of the same leaf are added
    up."""
    tasks: dict[int, Share] = {}
    for leaf, share in sorted(shares, key=lambda numbered: numbered[0]):
        before = tasks[leaf].tasks if leaf in tasks else 0
        tasks[leaf] = Share(share.domain, before + share.tasks)
    return Placement(levels, tuple(tasks.values()))
