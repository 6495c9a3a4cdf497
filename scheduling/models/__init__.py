from scheduling.models.allocation import (
    NO_GROWTH,
    Allocation,
    Attempt,
    Claim,
    DeviceSlice,
    MemoryResize,
    ResizeState,
)
from scheduling.models.background_simulation import (
    OPEN_SIMULATIONS,
    BackgroundSimulation,
    SimulationState,
)
from scheduling.models.history import Decision, DecisionKind, JobEvent
from scheduling.models.idle_stretch import IdleAction, IdleStretch
from scheduling.models.job import (
    HOLDING_STATES,
    OWN_END_REASONS,
    PENDING_STATES,
    RUNNING_STATES,
    TERMINAL_STATES,
    WAITING_STATES,
    GpuRequestMode,
    Job,
    JobKind,
    JobRole,
    JobState,
    PriorityClass,
    Task,
    TaskState,
)
from scheduling.models.job_deletion import JobDeletion
from scheduling.models.job_tag import JobTag
from scheduling.models.job_template import JobTemplate
from scheduling.models.mounted_claim import ClaimPhase, MountedClaim
from scheduling.models.policy_replay import PolicyReplay
from scheduling.models.priority_grant import PriorityGrant
from scheduling.models.slice_use import SliceUse
from scheduling.models.start_estimate import EstimateSubject, StartEstimate
from scheduling.models.start_prediction import CellForecast, ForecastResult, StartPrediction
from scheduling.models.usage_interval import UsageInterval
from scheduling.models.user_usage import UserUsage
from scheduling.models.workspace_policy import WorkspacePolicy

__all__ = [
    "HOLDING_STATES",
    "NO_GROWTH",
    "OPEN_SIMULATIONS",
    "OWN_END_REASONS",
    "PENDING_STATES",
    "RUNNING_STATES",
    "TERMINAL_STATES",
    "WAITING_STATES",
    "Allocation",
    "Attempt",
    "BackgroundSimulation",
    "CellForecast",
    "Claim",
    "ClaimPhase",
    "Decision",
    "DecisionKind",
    "DeviceSlice",
    "EstimateSubject",
    "ForecastResult",
    "GpuRequestMode",
    "IdleAction",
    "IdleStretch",
    "Job",
    "JobDeletion",
    "JobEvent",
    "JobKind",
    "JobRole",
    "JobState",
    "JobTag",
    "JobTemplate",
    "MemoryResize",
    "MountedClaim",
    "PolicyReplay",
    "PriorityClass",
    "PriorityGrant",
    "ResizeState",
    "SimulationState",
    "SliceUse",
    "StartEstimate",
    "StartPrediction",
    "Task",
    "TaskState",
    "UsageInterval",
    "UserUsage",
    "WorkspacePolicy",
]
