"""Which flavor a job's roles get, and how: free, by borrowing, or only if others give way.

The modes are those of Kueue's flavor assignment, worst first, so that they compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from scheduling.engine.model import FlavorResource, Help, Numbers, Reason, ResourceName


class Mode(IntEnum):
    """How a request could be met."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # others would have to give way, and nobody may be asked to
    PREEMPT = 2  # jobs of the own queue or of borrowers would have to give way
    RECLAIM = 3  # only own nominal has to be taken back
    FIT = 4


# A flavor is as bad as the gravest of what it lacks; of several flavors the least bad one is told.
SEVERITY = {
    Reason.NEVER_FITS: 4,
    Reason.EXCEEDS_MAX_QUOTA: 3,
    Reason.WAITING_FOR_QUOTA: 2,
    Reason.WAITING_FOR_BORROWED: 1,
    Reason.NO_ROOM: 0,
}


class Refusal:
    """Why a try failed: the reason, figures, and what would help.

    Figures that take a look at all nodes are worked out when somebody is told them (`later`): most tries
    fail for a job that then gets its place in another way. `known` are those that need no look.
    """

    __slots__ = ("_help", "_tell", "known", "reason")

    def __init__(self, reason: Reason, numbers: Numbers | None = None, ways: tuple[Help, ...] = ()) -> None:
        self.reason = reason
        self.known: Numbers = {} if numbers is None else numbers
        self._help = ways
        self._tell: Callable[[], Refusal] | None = None

    @staticmethod
    def later(reason: Reason, known: Numbers, tell: Callable[[], Refusal]) -> Refusal:
        """A refusal of which all figures are told by `tell`, in the state of the moment of asking."""
        found = Refusal(reason, known)
        found._tell = tell
        return found

    @property
    def numbers(self) -> Numbers:
        """All figures."""
        return self.told().known

    @property
    def help(self) -> tuple[Help, ...]:
        """What would help."""
        return self.told()._help

    def told(self) -> Refusal:
        """The refusal itself, with its figures worked out by what is so at this moment."""
        if self._tell is not None:
            found, self._tell = self._tell(), None
            self.known, self._help = found.numbers, found.help
        return self

    def but(self, **own: int | str) -> Refusal:
        """The same with some figures of its own."""
        if self._tell is None:
            return Refusal(self.reason, {**self.known, **own}, self._help)
        return Refusal.later(
            self.reason,
            {**self.known, **own},
            lambda: Refusal(self.reason, {**self.numbers, **own}, self.help),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Refusal):
            return NotImplemented
        mine, theirs = (self.reason, self.numbers, self.help), (other.reason, other.numbers, other.help)
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]  # figures are no key

    def __repr__(self) -> str:
        return f"Refusal({self.reason!r}, {self.numbers!r}, {self.help!r})"


@dataclass(frozen=True, slots=True)
class FlavorTry:
    """One flavor that was looked at for a role, in one resource group.

    `refusals` say for each resource why it is not free there, `refusal` is the gravest of them.
    `borrow_level` is the highest of its resources.
    """

    flavor: str
    mode: Mode
    borrow_level: int = 0
    refusal: Refusal | None = None
    refusals: tuple[Refusal, ...] = ()
    group: int = 0


@dataclass(frozen=True, slots=True)
class FlavorChoice:
    """The flavor that one resource of a role gets. `tried_to` is the index the search stopped at, -1 at
    the end of the list."""

    flavor: str
    mode: Mode
    borrow_level: int = 0
    tried_to: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleAssignment:
    """The flavors of one role at one size. No choices where no flavor would do.

    `refusal` tells why the role does not fit now. `torn` says that its choices name several flavors with
    nodes of their own: no task can stand in two of them. `place` is the flavor on whose nodes the tasks of a
    role stand that asks for nothing, and so has no choices.
    """

    role: str
    count: int
    choices: Mapping[ResourceName, FlavorChoice] = field(default_factory=dict)
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)
    tries: tuple[FlavorTry, ...] = ()
    refusal: Refusal | None = None
    torn: bool = False
    place: str = ""

    @property
    def mode(self) -> Mode:
        """The worst of its resources; a role that asks for nothing fits."""
        if self.torn:
            return Mode.NO_FIT
        if self.refusal is not None and not self.choices:
            return Mode.NO_FIT
        return min((choice.mode for choice in self.choices.values()), default=Mode.FIT)

    @property
    def flavors(self) -> tuple[str, ...]:
        """The flavors in use, each once, in order of resources."""
        if self.place:
            return (self.place,)
        return tuple(dict.fromkeys([self.choices[name].flavor for name in sorted(self.choices)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a whole job would get. `usage` sums what its roles would be charged.

    The search ends at the first role that fits nowhere; `roles` then ends with it.
    """

    roles: tuple[RoleAssignment, ...]
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)

    @property
    def mode(self) -> Mode:
        """The worst of its roles."""
        return min((role.mode for role in self.roles), default=Mode.FIT)

    @property
    def borrow_level(self) -> int:
        """How far up the tree the furthest part reaches; 0 inside the own quota."""
        return max((c.borrow_level for role in self.roles for c in role.choices.values()), default=0)

    @property
    def refusal(self) -> Refusal | None:
        """Why the job does not fit now: the gravest of what its roles lack; None when it fits."""
        found = [role.refusal for role in self.roles if role.refusal is not None]
        return max(found, key=lambda refusal: SEVERITY[refusal.reason], default=None)

    def tried(self) -> dict[str, dict[ResourceName, int]]:
        """By role and resource, the index at which the search over flavors stopped; -1 at the end."""
        return {role.role: {name: c.tried_to for name, c in role.choices.items()} for role in self.roles}

    @property
    def contested(self) -> frozenset[FlavorResource]:
        """The quotas of which something must be given back first."""
        return frozenset(
            FlavorResource(choice.flavor, resource)
            for role in self.roles
            for resource, choice in role.choices.items()
            if choice.mode is not Mode.FIT
        )
