"""The engine's data: frozen, free of behaviour, and serialisable field by field."""

from foundation.core.flavor_resource import FlavorResource, ResourceName
from scheduling.engine.model.inventory import (
    Device,
    Extended,
    Flavor,
    Node,
    Pressure,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from scheduling.engine.model.job import (
    ANYWHERE,
    NODE_NAME_FIELD,
    AffinityOperator,
    Allocation,
    Allowance,
    BarredFlavor,
    Claim,
    ClaimState,
    DeviceSlice,
    Expression,
    GpuRequest,
    Job,
    MountedVolume,
    PlacementRules,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    Request,
    Role,
    SubGang,
    TopologyRule,
)
from scheduling.engine.model.kinds import (
    RELEASING_KINDS,
    AllocationMode,
    DecisionKind,
    EvictRule,
    GpuMode,
    HelpCode,
    Instant,
    JobState,
    OutcomeStatus,
    PreemptOthers,
    PreemptWithin,
    Preference,
    QosClass,
    Reason,
    StopPolicy,
    Strategy,
    TopologyMode,
    Verdict,
    WhenCan,
)
from scheduling.engine.model.options import UserShares
from scheduling.engine.model.outcome import CycleResult, Decision, Help, JobOutcome, Numbers
from scheduling.engine.model.profiles import MigProfile, parse_profile
from scheduling.engine.model.quota import (
    Charge,
    Fungibility,
    PreemptionPolicy,
    Queue,
    Quota,
    QuotaNode,
    ResourceAmount,
    ResourceGroup,
    UserUsage,
)
from scheduling.engine.model.workload import EMPTY_WORKLOAD, TaskWorkload, WorkloadShape
