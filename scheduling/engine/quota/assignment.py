"""The assignment of flavors to a job's roles, with the mode: free quota, borrowing, or preemption.

The modes are those of Kueue's flavor assignment, worst first, so that they compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

from scheduling.engine.model import FlavorResource, Help, Numbers, Reason, ResourceName


class AssignmentMode(IntEnum):
    """The means by which a request can get its quota."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # other jobs would have to be preempted, and no candidate exists
    PREEMPT = 2  # jobs of the own queue or of borrowers would have to be preempted
    RECLAIM = 3  # only own nominal has to be reclaimed
    FIT = 4


# The refusal of a flavor is the most severe one of its resources; of several flavors the least severe is
# reported.
SEVERITY = {
    Reason.NEVER_FITS: 4,
    Reason.EXCEEDS_MAX_QUOTA: 3,
    Reason.WAITING_FOR_QUOTA: 2,
    Reason.WAITING_FOR_BORROWED: 1,
    Reason.NO_ROOM: 0,
}


class Refusal:
    """The reason why a try failed, with its numbers and the changes that would help.

    Numbers that need a look at all nodes are computed when they are first read (`defer_numbers`), because
    most tries fail for a job that is then admitted in another way. `known_numbers` are available without it.
    """

    __slots__ = ("_help", "_resolve", "known_numbers", "reason")

    def __init__(self, reason: Reason, numbers: Numbers | None = None, ways: tuple[Help, ...] = ()) -> None:
        self.reason = reason
        self.known_numbers: Numbers = {} if numbers is None else numbers
        self._help = ways
        self._resolve: Callable[[], Refusal] | None = None

    @staticmethod
    def defer_numbers(reason: Reason, known: Numbers, resolve: Callable[[], Refusal]) -> Refusal:
        """Return a refusal whose numbers `resolve` computes when they are first read, from the state then."""
        found = Refusal(reason, known)
        found._resolve = resolve
        return found

    @property
    def numbers(self) -> Numbers:
        """All numbers."""
        return self.resolve_numbers().known_numbers

    @property
    def help(self) -> tuple[Help, ...]:
        """The changes that would help."""
        return self.resolve_numbers()._help

    def resolve_numbers(self) -> Refusal:
        """Compute deferred numbers from the present state, and return the refusal itself."""
        if self._resolve is not None:
            found, self._resolve = self._resolve(), None
            self.known_numbers, self._help = found.numbers, found.help
        return self

    def with_numbers(self, **own: int | str) -> Refusal:
        """Return the same refusal with further or other numbers."""
        if self._resolve is None:
            return Refusal(self.reason, {**self.known_numbers, **own}, self._help)
        return Refusal.defer_numbers(
            self.reason,
            {**self.known_numbers, **own},
            lambda: Refusal(self.reason, {**self.numbers, **own}, self.help),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Refusal):
            return NotImplemented
        mine, theirs = (self.reason, self.numbers, self.help), (other.reason, other.numbers, other.help)
        return mine == theirs

    __hash__ = None  # type: ignore[assignment]  # numbers may be deferred, so they are no key

    def __repr__(self) -> str:
        return f"Refusal({self.reason!r}, {self.numbers!r}, {self.help!r})"


@dataclass(frozen=True, slots=True)
class FlavorTry:
    """One flavor that was tried for a role, in one resource group.

    `refusals` give for each resource why it is not free there, `refusal` is the most severe of them.
    `borrow_level` is the highest of its resources.
    """

    flavor: str
    mode: AssignmentMode
    borrow_level: int = 0
    refusal: Refusal | None = None
    refusals: tuple[Refusal, ...] = ()
    group: int = 0


@dataclass(frozen=True, slots=True)
class FlavorChoice:
    """The flavor of one resource of a role.

    `tried_index` is the index at which the search stopped, -1 at the end of the list.
    """

    flavor: str
    mode: AssignmentMode
    borrow_level: int = 0
    tried_index: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleAssignment:
    """The flavors of one role at one size; without choices if no flavor fits.

    `refusal` is why the role does not fit now. `spans_node_flavors` marks choices of several flavors with
    nodes of their own, of which one task can use only one. `node_flavor` is the flavor for the tasks of a
    role without requests, which has no choices.
    """

    role: str
    count: int
    choices: Mapping[ResourceName, FlavorChoice] = field(default_factory=dict)
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)
    tries: tuple[FlavorTry, ...] = ()
    refusal: Refusal | None = None
    spans_node_flavors: bool = False
    node_flavor: str = ""

    @property
    def mode(self) -> AssignmentMode:
        """The worst mode of its resources; a role without requests fits."""
        if self.spans_node_flavors:
            return AssignmentMode.NO_FIT
        if self.refusal is not None and not self.choices:
            return AssignmentMode.NO_FIT
        return min((choice.mode for choice in self.choices.values()), default=AssignmentMode.FIT)

    @property
    def flavors(self) -> tuple[str, ...]:
        """The flavors in use, each once, in order of resources."""
        if self.node_flavor:
            return (self.node_flavor,)
        return tuple(dict.fromkeys([self.choices[name].flavor for name in sorted(self.choices)]))


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The flavors of a whole job; `usage` is the sum of the charges of its roles.

    The search ends at the first role that fits nowhere; `roles` then ends with it.
    """

    roles: tuple[RoleAssignment, ...]
    usage: Mapping[FlavorResource, int] = field(default_factory=dict)

    @cached_property
    def mode(self) -> AssignmentMode:
        """The worst mode of its roles."""
        return min((role.mode for role in self.roles), default=AssignmentMode.FIT)

    @cached_property
    def borrow_level(self) -> int:
        """The highest level of the tree from which a role borrows; 0 inside the own quota."""
        return max((c.borrow_level for role in self.roles for c in role.choices.values()), default=0)

    @property
    def refusal(self) -> Refusal | None:
        """The most severe refusal of its roles; None when the job fits."""
        found = [role.refusal for role in self.roles if role.refusal is not None]
        return max(found, key=lambda refusal: SEVERITY[refusal.reason], default=None)

    @property
    def contested(self) -> frozenset[FlavorResource]:
        """The quotas of which some amount must be released first."""
        return frozenset(
            FlavorResource(choice.flavor, resource)
            for role in self.roles
            for resource, choice in role.choices.items()
            if choice.mode is not AssignmentMode.FIT
        )
