"""The domains of a role's tasks, or the reason why there are none, in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from scheduling.conformance.kueue.topology_aware.tree import Path
from scheduling.engine.model import Taint


@dataclass(frozen=True, slots=True)
class SliceLayer:
    """Every `size` tasks share one domain of `level`, a node label."""

    level: str
    size: int


class Share(NamedTuple):
    """A number of tasks of a role in one leaf domain, named by its key."""

    domain: Path
    tasks: int


@dataclass(frozen=True, slots=True)
class Placement:
    """All tasks of a role: one share per leaf, in the order of the leaves' paths.

    `levels` are the node labels whose values the keys of the shares consist of.
    """

    levels: tuple[str, ...]
    shares: tuple[Share, ...]

    @property
    def tasks(self) -> int:
        """The number of placed tasks."""
        return sum(share.tasks for share in self.shares)

    def first_tasks(self, tasks: int) -> Placement:
        """The first `tasks` of them, in the order of the shares."""
        remaining: list[Share] = []
        for share in self.shares:
            if tasks <= 0:
                break
            remaining.append(Share(share.domain, min(share.tasks, tasks)))
            tasks -= share.tasks
        return Placement(self.levels, tuple(remaining))

    def without_domain(self, domain: str) -> Placement:
        """The shares that do not stand in the leaf whose last label value is `domain`."""
        return Placement(self.levels, tuple(share for share in self.shares if share.domain[-1] != domain))


class Usage(NamedTuple):
    """`tasks` tasks of `per_task` units each, held in the leaf domain with this key."""

    domain: Path
    per_task: Mapping[str, int]
    tasks: int


def usage_of(placement: Placement, per_task: Mapping[str, int]) -> list[Usage]:
    """Return the usage of a placement in each leaf."""
    return [Usage(share.domain, per_task, share.tasks) for share in placement.shares]


class Misfit(StrEnum):
    """The reason why there is no placement. All but the last four are mistakes of the request."""

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
    """The number of groups of a slice layer that fit, in the domain where most do, and how many are
    needed.
    """

    level: str
    fitting: int
    needed: int


@dataclass(slots=True)
class Exclusions:
    """The reasons why leaves were left out, in leaves: each is counted once, by the first rule that
    refused it.
    """

    leaves: int = 0
    selector: int = 0
    affinity: int = 0
    outside: int = 0
    taints: dict[Taint, int] = field(default_factory=dict)
    resources: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Exclusions:
        """The same counts, free to be added to."""
        return Exclusions(
            self.leaves, self.selector, self.affinity, self.outside, dict(self.taints), dict(self.resources)
        )

    def has_any(self) -> bool:
        """Return whether a leaf was left out at all."""
        return bool(self.selector or self.affinity or self.outside or self.taints or self.resources)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """No placement. `fitting` of `needed` slices of `slice_size` tasks would fit at `level`.

    `layers` has the numbers of each slice layer where there are several. `level` and `other` are node
    labels, or the domain that is gone, as `misfit` says.
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
        """A domain that tasks were placed in is gone."""
        return Failure(Misfit.STALE_PLACEMENT, level=domain)


RoleOutcome = Placement | Failure


def join_shares(levels: tuple[str, ...], shares: Iterable[tuple[int, Share]]) -> Placement:
    """Shares with their leaf numbers, put in order; what stands in the same leaf is added up."""
    tasks: dict[int, Share] = {}
    for leaf, share in sorted(shares, key=lambda numbered: numbered[0]):
        before = tasks[leaf].tasks if leaf in tasks else 0
        tasks[leaf] = Share(share.domain, before + share.tasks)
    return Placement(levels, tuple(tasks.values()))
