"""This module holds the public names of the engine; others import them from `scheduling.engine`."""

from scheduling.engine.actions.advice.apply_help import apply_help
from scheduling.engine.actions.advice.gates import JobExamination, PreemptionGate, PreemptionResult, RoomGate
from scheduling.engine.builtin import BUILTIN, cycle_order, resolve_config
from scheduling.engine.cycle import examine_job, never_fits, recount_workload, run_cycle
from scheduling.engine.model import TaskWorkload, WorkloadShape
from scheduling.engine.model.labels import has_labels, matches_expression
from scheduling.engine.model.options import (
    LOSS_WINDOW_S,
    BackfillOptions,
    ConsolidationOptions,
    ElasticOptions,
    FairSharing,
    NoRoomOptions,
    PreemptionOptions,
    ShareStrategy,
    UserShares,
    VictimOrder,
)
from scheduling.engine.model.registry import ConfigError
from scheduling.engine.order.orders import candidate_key
from scheduling.engine.order.protocols import Candidate, Order
from scheduling.engine.placement.index.protocols import DevicePicker, Score, Veto
from scheduling.engine.placement.index.question import Question
from scheduling.engine.placement.placer import TaskPlacement
from scheduling.engine.placement_stream import PlacementStream, PreparedRequest, RowAndCards
from scheduling.engine.plugins.discovery import with_entry_points
from scheduling.engine.plugins.guard import PluginError
from scheduling.engine.preemption.candidates.candidates import VictimCandidate, normative_order
from scheduling.engine.preemption.candidates.policy import may_preempt
from scheduling.engine.preemption.oracle import PreemptionOracle
from scheduling.engine.preemption.over_quota import find_over_quota_jobs
from scheduling.engine.preemption.search import VictimSearch
from scheduling.engine.preemption.trials.targets import Preemptor, TargetSet
from scheduling.engine.quota.assign import ReplacedRole, assign_flavors
from scheduling.engine.quota.assignment import Assignment, AssignmentMode, FlavorTry, Refusal, RoleAssignment
from scheduling.engine.quota.flavors import Mismatch
from scheduling.engine.session.config import EngineConfig, ExplainScope
from scheduling.engine.session.plugin_sets import Action, PluginSet
from scheduling.engine.session.session import DeadlineExceededError
from scheduling.engine.state.allocation_ledger import SnapshotError
from scheduling.engine.state.charges import charges_in_flavors, compute_demand
from scheduling.engine.state.codec import CodecError, decode, encode, to_canonical_json
from scheduling.engine.state.delta import (
    AllocationPut,
    AllocationRemoved,
    Change,
    ClaimPut,
    ClaimRemoved,
    Delta,
    FlavorPut,
    JobPut,
    JobRemoved,
    LossPut,
    NodePut,
    NodeRemoved,
    QueuePut,
    QuotaPut,
    UsagePut,
    WorkloadPut,
)
from scheduling.engine.state.fleet import Bools, Ints, Rows
from scheduling.engine.state.snapshot import Snapshot
from scheduling.engine.state.statement import Statement, StatementError
from scheduling.engine.stream_learner import WorkloadLearner
