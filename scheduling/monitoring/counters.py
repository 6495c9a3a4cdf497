"""The measures of cycles, execution and jobs; see `foundation.monitoring.counters`."""

from __future__ import annotations

from typing import Final

from foundation.monitoring.counters import Counter, Histogram

CYCLE: Final = Histogram("allotment_cycle_seconds", "A whole engine cycle.", ("cell",))
SNAPSHOT: Final = Histogram("allotment_cycle_snapshot_seconds", "Reading what a cycle looks at.", ("cell",))
DECISION: Final = Histogram("allotment_cycle_decision_seconds", "The engine, without a database.", ("cell",))
COMMIT: Final = Histogram("allotment_cycle_commit_seconds", "Writing down what was decided.", ("cell",))
EXECUTION: Final = Histogram(
    "allotment_execution_seconds",
    "One batch of a cluster: `ensure` makes and binds pods, `remove` ends them, `observe` looks.",
    ("cluster", "step"),
)
WAIT: Final = Histogram("allotment_admission_wait_seconds", "From submission to the first admission.")
EVENTS: Final = Counter("allotment_job_events_total", "Steps in the life of jobs.", ("code",))
STARTS_REFUSED: Final = Counter(
    "allotment_starts_refused_total", "Pods that a cluster refused to make.", ("cluster", "code")
)
