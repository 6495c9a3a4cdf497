"""Enumerations of the engine, and its type for instants.

The values are stable: they are stored, shown and compared in tests.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NewType

from foundation.core.reasons import Reason as Reason

Instant = NewType("Instant", float)
"""Seconds since the epoch. The engine compares instants and never reads a clock."""


class GpuMode(StrEnum):
    """The mode in which a card is allocated, or in which a task requests it."""

    WHOLE = "whole"
    SLICE = "slice"
    MIG = "mig"


class QosClass(StrEnum):
    """The QoS class of Kubernetes; under node pressure the last is evicted first."""

    GUARANTEED = "guaranteed"
    BURSTABLE = "burstable"
    BEST_EFFORT = "best-effort"


class Strategy(StrEnum):
    """The behaviour of a queue whose head cannot start."""

    BEST_EFFORT_FIFO = "best-effort-fifo"
    STRICT_FIFO = "strict-fifo"


class StopPolicy(StrEnum):
    """The stop policy of a queue; `hold-and-drain` also evicts its running jobs."""

    NONE = "none"
    HOLD = "hold"
    HOLD_AND_DRAIN = "hold-and-drain"


class PreemptWithin(StrEnum):
    """The jobs of its own queue that a job may preempt."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "lower-or-newer-equal-priority"


class PreemptOthers(StrEnum):
    """The jobs of other queues that a job may preempt; `any` has no meaning while borrowing."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    ANY = "any"


class WhenCan(StrEnum):
    """The choice whether a flavor that fits ends the search."""

    MAY_STOP_SEARCH = "may-stop-search"
    TRY_NEXT_FLAVOR = "try-next-flavor"


class Preference(StrEnum):
    """The preference between a flavor that borrows and one that needs preemption."""

    BORROWING_OVER_PREEMPTION = "borrowing-over-preemption"
    PREEMPTION_OVER_BORROWING = "preemption-over-borrowing"


class TopologyMode(StrEnum):
    """The strictness of a topology request."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"


class AllocationMode(StrEnum):
    """The quota that a queue may use: `static` only its own nominal, `dynamic` borrowed quota as well."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class JobState(StrEnum):
    """The states of a job that the engine distinguishes.

    `live` covers admitted, starting and running; `leaving` covers evicting and stopping, which
    still hold quota and devices.
    """

    QUEUED = "queued"
    SUSPENDED = "suspended"
    LIVE = "live"
    LEAVING = "leaving"


class HelpCode(StrEnum):
    """A change that would let a waiting job start; the sentence for people is built from code and numbers."""

    ASK_FEWER_CARDS = "ASK_FEWER_CARDS"  # cards: the most that one node can give now
    ASK_FEWER_TASKS = "ASK_FEWER_TASKS"  # tasks: the largest gang that could be placed now
    ASK_LESS = "ASK_LESS"  # flavor, resource, limit: ask for at most this
    ASK_OTHER_MODEL = "ASK_OTHER_MODEL"  # models: comma-separated card models that exist
    ASK_OTHER_PROFILE = "ASK_OTHER_PROFILE"  # profiles: comma-separated MIG profiles that exist
    LOOSEN_PLACEMENT = "LOOSEN_PLACEMENT"  # veto, nodes: nodes that this rule alone refuses
    MAKE_PREEMPTIBLE = "MAKE_PREEMPTIBLE"  # flavor: a preemptible job could borrow there
    OPEN_QUEUE = "OPEN_QUEUE"  # queue
    RAISE_QUOTA = "RAISE_QUOTA"  # flavor, resource, short: the nominal is short by this much
    RESUME = "RESUME"
    WAIT_FOR_RELEASE = "WAIT_FOR_RELEASE"  # flavor, resource, short: others must give back this much
    WAIT_UNTIL = "WAIT_UNTIL"  # at


class DecisionKind(StrEnum):
    """The decisions of the engine for a job."""

    ADMIT = "admit"
    EVICT = "evict"
    SHRINK = "shrink"
    GROW = "grow"
    RESIZE = "resize"
    MIGRATE = "migrate"
    PARK = "park"


RELEASING_KINDS: Final = (DecisionKind.EVICT, DecisionKind.SHRINK, DecisionKind.MIGRATE)
"""The decisions that take resources from a job that has them; a migrated job gets others in their place."""


class EvictRule(StrEnum):
    """The rule by which a job or task was evicted."""

    IN_QUEUE_PRIORITY = "IN_QUEUE_PRIORITY"
    RECLAIM_NOMINAL = "RECLAIM_NOMINAL"
    RECLAIM_WHILE_BORROWING = "RECLAIM_WHILE_BORROWING"
    FAIR_SHARE = "FAIR_SHARE"
    NODE_PRESSURE = "NODE_PRESSURE"
    NODE_LOST = "NODE_LOST"
    NODE_DRAINED = "NODE_DRAINED"
    DEVICE_UNHEALTHY = "DEVICE_UNHEALTHY"
    NOT_READY = "NOT_READY"
    STALE_GANG = "STALE_GANG"
    BUDGET = "BUDGET"
    IDLE = "IDLE"
    SLICE_RETURNED = "SLICE_RETURNED"
    OVERRIDE_ENDED = "OVERRIDE_ENDED"
    QUEUE_DRAINED = "QUEUE_DRAINED"
    CONSOLIDATION = "CONSOLIDATION"
    TIME_LIMIT = "TIME_LIMIT"


class OutcomeStatus(StrEnum):
    """The status of an evaluated job at the end of the cycle."""

    ADMITTED = "admitted"
    WAITING = "waiting"


class Verdict(StrEnum):
    """The result of one evaluation of a job.

    `deferred`: it fits once terminating tasks are released. `overlaps`: its victims terminate for another job
    already. `outrun`: it would fit if no earlier job of the cycle had taken the capacity. `gated`: it needs
    preemption, which it may not request yet. `reserved`: it fits, but the capacity is reserved for another
    job.
    """

    ADMITTED = "admitted"
    PREEMPTING = "preempting"
    DEFERRED = "deferred"
    NO_FIT = "no-fit"
    NO_VICTIMS = "no-victims"
    NO_ROOM = "no-room"
    OVERLAPS = "overlaps"
    OVERTAKEN = "outrun"
    GATED = "gated"
    RESERVED = "reserved"
