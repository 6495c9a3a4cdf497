"""Closed vocabularies of the engine, and its notion of time.

The codes are those of the domain page and are stable: they are stored, shown and asserted on.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NewType

from foundation.core.reasons import Reason as Reason

Instant = NewType("Instant", float)
"""Seconds since the epoch. The engine compares instants and never asks for the present one."""


class GpuMode(StrEnum):
    """How a card is handed out, or how a task asks for it."""

    WHOLE = "whole"
    SLICE = "slice"
    MIG = "mig"


class QosClass(StrEnum):
    """The class of a task by its requests and limits; the last gives way first under pressure."""

    GUARANTEED = "guaranteed"
    BURSTABLE = "burstable"
    BEST_EFFORT = "best-effort"


class Strategy(StrEnum):
    """What a queue does when the job at its head cannot start."""

    BEST_EFFORT_FIFO = "best-effort-fifo"
    STRICT_FIFO = "strict-fifo"


class StopPolicy(StrEnum):
    """Whether a queue admits. `hold-and-drain` also gives back what is running."""

    NONE = "none"
    HOLD = "hold"
    HOLD_AND_DRAIN = "hold-and-drain"


class PreemptWithin(StrEnum):
    """Which jobs of the own queue a job may push out."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "lower-or-newer-equal-priority"


class PreemptOthers(StrEnum):
    """Which jobs of other queues a job may push out; `any` is of no meaning while borrowing."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    ANY = "any"


class WhenCan(StrEnum):
    """Whether a flavor that would do ends the search."""

    MAY_STOP_SEARCH = "may-stop-search"
    TRY_NEXT_FLAVOR = "try-next-flavor"


class Preference(StrEnum):
    """Which of two flavors is better: one that borrows, or one that must push others out."""

    BORROWING_OVER_PREEMPTION = "borrowing-over-preemption"
    PREEMPTION_OVER_BORROWING = "preemption-over-borrowing"


class TopologyMode(StrEnum):
    """How strongly tasks are to stand together."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"


class AllocationMode(StrEnum):
    """`static`: a queue's own nominal only. `dynamic`: it may borrow."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class JobState(StrEnum):
    """What the engine needs to know of a job's state.

    `live` covers admitted, starting and running; `leaving` covers evicting and stopping, which
    still hold quota and devices.
    """

    QUEUED = "queued"
    SUSPENDED = "suspended"
    LIVE = "live"
    LEAVING = "leaving"


class HelpCode(StrEnum):
    """What would let a waiting job start; each comes with numbers, the sentence is made elsewhere."""

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
    """What the engine may decide for a job."""

    ADMIT = "admit"
    EVICT = "evict"
    SHRINK = "shrink"
    GROW = "grow"
    RESIZE = "resize"
    MIGRATE = "migrate"
    PARK = "park"


class EvictRule(StrEnum):
    """By which rule a holder was told to give way."""

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
    OVERRIDE_ENDED = "OVERRIDE_ENDED"
    QUEUE_DRAINED = "QUEUE_DRAINED"
    CONSOLIDATION = "CONSOLIDATION"
    TIME_LIMIT = "TIME_LIMIT"


class OutcomeStatus(StrEnum):
    """How a considered job leaves the cycle."""

    ADMITTED = "admitted"
    WAITING = "waiting"


class Verdict(StrEnum):
    """What became of one job when its turn came.

    `deferred`: it fits once those who were told to leave are gone. `overlaps`: its victims leave for
    another job already. `outrun`: it would have fitted, had no earlier job of the cycle taken it.
    `gated`: others would have to leave, and the job may not ask that yet. `reserved`: it fits, but what
    it would take is kept for another job.
    """

    ADMITTED = "admitted"
    PREEMPTING = "preempting"
    DEFERRED = "deferred"
    NO_FIT = "no-fit"
    NO_VICTIMS = "no-victims"
    NO_ROOM = "no-room"
    OVERLAPS = "overlaps"
    OUTRUN = "outrun"
    GATED = "gated"
    RESERVED = "reserved"
