"""The contract between Allotment and a cluster of any kind.

A caller asks a backend to create a task's pod (`ensure_pod`) or to delete it (`remove_pod`); both are
idempotent by name, because a retry after an unknown outcome must find the first object. The actual state of
pods comes from `observe_pods`, at least once and in any order; a missing answer proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from clusters.backends.volumes import NodeTerms, VolumeClaim
from clusters.gpu.batches import AgentReport

GANG_FOLDER: Final = "/etc/allotment"
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - a path in containers
EPOCH: Final = "allotment.io/epoch"
"""The label of a pod with the lease (epoch) of its cell under which the pod was admitted."""
HOLD: Final = "allotment.io/hold"
"""The label of a pod with the id of its allocation, by which a restored database recognizes the pod."""
GRACE_S: Final = 30
"""The grace period of a task in seconds if its job states none."""
Variable = str | Mapping[str, Any]
"""A text, or a reference to the entry of a secret or config map that holds it."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a backend.

    `admits`: the cluster decides admission itself, and the ledger follows. `resize`: the backend changes the
    memory of parts of cards while their pod runs."""

    slices: bool = False
    mig: bool = False
    bind: bool = False
    admits: bool = False
    resize: bool = False
    logs: bool = False
    owned: bool = False  # the cluster has an identity, and an object that names the platform that manages it
    gangs: bool = False  # each gang has an object in the cluster, which has to be deleted
    claims: bool = False  # pods mount persistent volume claims, which may tie them to nodes


@dataclass(frozen=True, slots=True)
class Owner:
    """The platform that manages a cluster, as the cluster records it.

    The id of an installation, the machine that wrote the record last and when, and a token that is new at
    each write. `version` guards the next write.
    """

    installation: str
    token: str
    host: str
    at: datetime
    version: str = ""


@dataclass(frozen=True, slots=True)
class DeviceFact:
    """One card, or one MIG instance with its profile, as the cluster reports it. Memory in MiB, physical.

    Not `healthy`: the card takes no new task, for any reason. `broken`: this card itself is known to have
    failed, so the tasks on it cannot be trusted to go on. `counted`: only the number of such cards is known,
    and the node chooses among them. `cores`: percent points of the card's compute.
    """

    uuid: str
    index: int
    model: str
    memory_mib: int
    mode: str = "whole"  # whole | slice | mig
    healthy: bool = True
    profile: str = ""
    broken: bool = False
    counted: bool = False
    cores: int = 100


@dataclass(frozen=True, slots=True)
class NodeFact:
    """One node as the cluster reports it. CPU in millicores, memory in MiB, both allocatable.

    `pods`: the most pods of any owner that the node takes; None for any number.
    """

    name: str
    cpu_millicores: int
    memory_mib: int
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()  # key, value, effect
    ready: bool = True
    cordoned: bool = False
    pressure: tuple[str, ...] = ()  # memory | disk | pid
    devices: tuple[DeviceFact, ...] = ()
    pods: int | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All nodes of the cluster at one moment."""

    nodes: tuple[NodeFact, ...]


@dataclass(frozen=True, slots=True)
class TaskRef:
    """The name of one pod. `uid` guards a removal against deleting a successor of the same name.

    Without a uid, `hold` is the guard: a pod whose label `HOLD` has another value was made for an allocation
    that a database restored from a backup does not know.
    """

    namespace: str
    name: str
    uid: str = ""
    hold: str = ""


@dataclass(frozen=True, slots=True)
class GangRef:
    """The name of what the pods of one attempt share."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class GangSpec:
    """The properties that the pods of one attempt have in common.

    `name` is a DNS label that begins with a letter; if `size` is more than one, each pod finds the others at
    `<pod>.<name>`. `labels` are carried by all its pods and by no others. `files` are read by each pod below
    `GANG_FOLDER`; they may change when the gang grows or shrinks.
    """

    name: str
    size: int
    labels: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Return whether it is a single pod that reads no file, so that the gang needs no object."""
        return self.size == 1 and not self.files


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """A slice of one card: cores in percent points (100 = whole card), memory in MiB."""

    uuid: str
    cores: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Everything needed to create one pod; the engine has already chosen node and devices."""

    ref: TaskRef
    node: str
    cpu_millicores: int
    memory_mib: int
    devices: tuple[DeviceGrant, ...]
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, Variable]
    labels: Mapping[str, str]  # include attempt and epoch, so that a stale worker's pod is recognised
    workspace: str  # the id of the workspace to which the namespace has to belong
    gang: GangSpec | None = None
    # Further settings of the pod in the checked terms of a job file: `args` to `pre_stop` and `limits` of a
    # role, `volumes`, and `environment_from` to `termination_grace_s` of a job. Only those that are set.
    options: Mapping[str, Any] = field(default_factory=dict)
    simulate: Mapping[str, object] = field(default_factory=dict)  # start_s, run_s, exit_code, gpu_utilisation


class OutcomeKind(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


UNKNOWN: Final = "UNKNOWN"
UNREACHABLE: Final = "UNREACHABLE"
PUT_OFF: Final = "PUT_OFF"


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """The outcome of a call. `unknown` means: ask again by name, and conclude nothing.

    The code of an unknown outcome is `UNKNOWN` if the request was sent, and this object may never get an
    answer; `UNREACHABLE` if nothing was sent or the cluster as a whole did not answer; and `PUT_OFF` if
    nothing was sent because other calls had waited too long already.
    """

    kind: OutcomeKind
    code: str = ""
    message: str = ""
    uid: str = ""

    @classmethod
    def of_success(cls, uid: str = "") -> PodOutcome:
        return cls(OutcomeKind.DONE, uid=uid)

    @classmethod
    def of_refusal(cls, code: str, message: str) -> PodOutcome:
        return cls(OutcomeKind.REFUSED, code, message)

    @classmethod
    def of_unknown(cls, message: str, code: str = UNKNOWN) -> PodOutcome:
        return cls(OutcomeKind.UNKNOWN, code, message)


class PodPhase(StrEnum):
    """`gone` is a confirmed absence: the pod was seen deleted, or a complete list did not hold it."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REMOVED = "gone"


@dataclass(frozen=True, slots=True)
class PodObservation:
    """The observed state of a pod. `message` is the kubelet's message on a failure.

    `finalizers`: those that keep a terminating pod, though its containers may have ended. `node`: where the
    pod runs or ran; empty if it has no node or the cluster does not report it.
    """

    ref: TaskRef
    phase: PodPhase
    at: datetime
    labels: Mapping[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    finalizers: tuple[str, ...] = ()
    node: str = ""


@dataclass(frozen=True, slots=True)
class PodEvent:
    """An event of a pod, as the cluster reports it: `count` times so far, the last time `at`."""

    ref: TaskRef
    at: datetime
    reason: str
    message: str
    warning: bool = False
    count: int = 1


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """The observed state of a node; `fact` is None after the node left the cluster."""

    name: str
    fact: NodeFact | None
    at: datetime


Observation = PodObservation | NodeObservation


def in_order(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Sort by time, nodes first; of two pods of one name the deleted one first, its successor last."""

    def sort_key(seen: Observation) -> tuple[object, ...]:
        if isinstance(seen, NodeObservation):
            return (seen.at, 0, "", seen.name, 0)
        return (seen.at, 1, seen.ref.namespace, seen.ref.name, seen.phase is not PodPhase.REMOVED)

    return tuple(sorted(observations, key=sort_key))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPod:
    """A pod of any owner on a node, with the capacity that it holds. Millicores, MiB.

    `cards` counts cards that the node chooses, by MIG profile, "" for whole ones; `shares` are of cards known
    by uuid. `owner` is the kind and name of its controller. `is_permanent`: it belongs to the node and is
    recreated when it ends, as a daemon's pod is. `terminating`: it still holds all of it.
    `labels` are those by which the platform marks its pods, except `installation`; empty for a pod without
    such labels.
    """

    uid: str
    namespace: str
    name: str
    node: str
    cpu_millicores: int = 0
    memory_mib: int = 0
    cards: Mapping[str, int] = field(default_factory=dict)
    shares: tuple[DeviceGrant, ...] = ()
    owner: str = ""
    is_permanent: bool = False
    terminating: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    installation: str = ""


class PodOnNode(NamedTuple):
    """The name of a pod on a node; `read` parses the rest. Most pods are the platform's own, whose capacity
    is not read from the cluster."""

    uid: str
    namespace: str
    name: str
    node: str
    read: Callable[[], BoundPod]


@dataclass(frozen=True, slots=True)
class BoundPods:
    """Pods on nodes that appeared or changed since a cursor, and the uids of those that hold nothing now.

    `complete`: there are no other pods.
    """

    pods: tuple[PodOnNode, ...] = ()
    removed: frozenset[str] = frozenset()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class ObservedBatch:
    """Changes since a cursor. `complete`: these are all pods of the platform, so an absent pod may be
    deleted; see `pods_exist`. `bound` are the pods on nodes, including those of other owners.

    `again_s`: seconds until the next change, if the cluster knows or expects one; the caller should then
    observe again.
    """

    observations: tuple[Observation, ...]
    cursor: str
    complete: bool = False
    again_s: float | None = None
    bound: BoundPods = BoundPods()


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """The most cards that the pods of a namespace may request, by the name under which nodes count them: a
    MIG profile, or "" for whole cards and parts of cards. A name that is absent is unlimited.

    `workspace` is the id of the workspace to which the namespace has to belong. `used`: pods of this
    workspace were created in it before, so a namespace without an owner's label may be marked as the
    workspace's.
    """

    namespace: str
    cards: Mapping[str, int]
    workspace: str
    used: bool = False


class NamespaceState(StrEnum):
    """`unmarked`: made by a version of the platform without owner labels; `foreign`: of any other owner."""

    ABSENT = "absent"
    OWN = "own"
    UNMARKED = "unmarked"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Governed:
    """The objects around a tenant's pods that were missing and were created, and those that had changed and
    were restored.

    `repaired`: by object and by field (with dots between its parts), the value before and the value now; None
    for no value. `refused`: what the cluster refused, with its message. `unmarked`: namespaces of an earlier
    version without an owner's label.
    """

    created: tuple[str, ...] = ()
    repaired: Mapping[str, Mapping[str, tuple[Any, Any]]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    unmarked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One reading of a card, or of one pod's slice of it when `pod` is set.

    utilisation: percent of the whole card's compute, 0..100; memory in MiB; temperature in °C; power
    in W. Temperature and power belong to the card and are None on a slice's row. `values` are further
    measures of `clusters.gpu.measures`, in the units given there.
    """

    at: datetime
    node: str
    device_uuid: str
    utilisation_percent: float
    memory_used_mib: int
    temperature_c: float | None = None
    power_w: float | None = None
    pod: TaskRef | None = None
    values: Mapping[str, float] = field(default_factory=dict)


class SampleSink(Protocol):
    """The receiver of samples; telemetry registers itself as one."""

    def write(self, cluster_id: str, samples: Iterable[DeviceSample]) -> int:
        """Store samples and return the number stored."""


@runtime_checkable
class ClusterBackend(Protocol):
    """One cluster. Calls may raise `BackendUnavailable`; then the state of the cluster is unknown.

    A subclass gets `ensure_many` and `remove_many` as loops, and overrides them if one round trip can carry
    many pods. The other defaults are those of a cluster without pods of other owners and without objects
    around tenants' pods.
    """

    capabilities: Capabilities

    def check_connection(self) -> None:
        """Check within a few seconds whether the cluster answers. Raises: BackendUnavailable."""

    def list_missing_permissions(self) -> tuple[str, ...] | None:
        """Return the permissions that the platform's account lacks in the cluster, as `get pods/log`; None
        if the cluster does not let it ask."""
        return ()

    def read_inventory(self) -> Inventory: ...

    def ensure_pod(self, spec: TaskSpec) -> PodOutcome:
        """Create the pod unless it exists. A pod of that name with the same labels counts as done."""

    def remove_pod(self, ref: TaskRef, grace_s: int) -> PodOutcome:
        """Request the pod's deletion. Done: accepted or already absent; its end is observed later."""

    def ensure_many(self, specs: Sequence[TaskSpec]) -> list[PodOutcome]:
        """Create each pod; one outcome per spec, in their order. A refusal does not stop the other pods."""
        return [self.ensure_pod(spec) for spec in specs]

    def remove_many(self, refs: Sequence[TaskRef], grace_s: int) -> list[PodOutcome]:
        """Request the deletion of each pod; one outcome per reference, in their order."""
        return [self.remove_pod(ref, grace_s) for ref in refs]

    def resize_devices(self, ref: TaskRef, devices: Sequence[DeviceGrant]) -> PodOutcome:
        """Set the memory that a running pod may use of each of its cards, all of which are named; cores stay.

        Done: these amounts are in effect, and no other change is under way. Unknown: the change was
        requested, so the old or the new amounts may be in effect; ask again, or ask for the old amounts to
        revert it. Refused: nothing was changed, nor will be.
        """
        return PodOutcome.of_refusal("UNSUPPORTED", "this kind of cluster changes no memory of running pods")

    def mark_schedulable(self, node: str, *, schedulable: bool) -> PodOutcome:
        """Cordon or uncordon a node; a node already in that state counts as done.

        Unknown: ask again. Refused: the node is unchanged, and the message is the cluster's.
        """
        return PodOutcome.of_refusal("UNSUPPORTED", "this kind of cluster cordons no nodes")

    def remove_gangs(self, gangs: Sequence[GangRef]) -> list[PodOutcome]:
        """Delete the shared objects of gangs, after their last pod; one outcome each, absent is done."""
        return [PodOutcome.of_success() for _ in gangs]

    def list_gangs(self) -> list[tuple[GangRef, Mapping[str, str]]]:
        """Return the shared objects of gangs that exist now, with the labels of each."""
        return []

    def observe_pods(self, cursor: str | None, *, whole: bool = False) -> ObservedBatch:
        """Return the changes since `cursor`; None asks for everything and gives a complete batch.

        `whole`: in addition to the changes, every pod of the platform and every node, also a complete batch;
        of pods of other owners only the changes.
        """

    def read_identity(self) -> str:
        """Return the uid of the cluster, which stays the same behind another address; "" if it has none."""
        return ""

    def read_owner(self) -> Owner | None:
        """Return the platform that the cluster names as its owner; None if it names none."""
        return None

    def write_owner(self, owner: Owner) -> None:
        """Write the owner into the cluster, unless it was changed since `owner.version`.

        Raises: BackendUnavailable, also if the record was changed.
        """

    def remove_owner(self) -> None:
        """Remove the owner from the cluster."""

    def pods_exist(self, refs: Sequence[TaskRef]) -> list[bool]:
        """Return for each pod that a complete batch lacked whether a read by uid or name finds it.

        A changed label may hide a running pod from the list.
        """
        return [False for _ in refs]

    def list_objects(self, kind: str) -> list[Mapping[str, Any]]:
        """Return all objects of a kind as the cluster has them, for checks that share no code with
        observation.

        Kinds: `nodes`, `pods`, `configmaps`, `services`, `namespaces`. The list is empty if there are none.
        """
        return []

    def ensure_namespaces(self, limits: Sequence[TenantLimits]) -> Governed:
        """Create and repair the objects in the existing namespaces of tenants."""
        return Governed()

    def namespace_state(self, name: str, workspace: str) -> NamespaceState:
        """The owner of a namespace as seen from a workspace, given by its id. Raises: BackendUnavailable."""
        return NamespaceState.OWN

    def namespace_adopt(self, name: str, workspace: str) -> None:
        """Mark an existing namespace as that of a workspace, whatever its previous owner.

        Raises: BackendUnavailable, with the cluster's message if the cluster refuses it.
        """

    def list_volume_claims(self, namespace: str, workspace: str) -> list[VolumeClaim] | None:
        """Return the volume claims in the namespace of a workspace, which is given by its id, by name.

        Returns None if the cluster has no namespaces, or if the namespace is missing. Raises:
        BackendUnavailable, as NamespaceNotOwned if the namespace belongs to another owner.
        """
        return None

    def read_volume_terms(self, volumes: Sequence[str]) -> Mapping[str, NodeTerms | None]:
        """Return the required node affinity of persistent volumes by name, without those that can't be read.

        No terms: every node; None: no such volume. Raises: BackendUnavailable, as AccessDenied if no
        volume may be read.
        """
        return {}

    def annotate_selected_node(self, namespace: str, claim: VolumeClaim, node: str) -> None:
        """Have the volume of a claim created where pods of a node can mount it, as kube-scheduler does.

        Nothing happens if the claim was changed since it was read. Raises: BackendUnavailable.
        """

    def list_pod_events(self, refs: Sequence[TaskRef]) -> list[PodEvent]:
        """Return the events that the cluster has of pods of those names, in no particular order."""
        return []

    def list_claim_events(self, refs: Sequence[TaskRef]) -> list[PodEvent]:
        """Return the events of volume claims, whose namespaces and names `refs` are."""
        return []

    def read_samples(self) -> Iterable[DeviceSample]: ...

    def read_reports(self) -> Sequence[AgentReport]:
        """Return facts, processes and events of GPUs, if the cluster reports them in place of node agents."""
        return ()

    def verify_agent(self, token: str, node: str) -> bool:
        """Return whether the cluster confirms that a token for the platform is that of the node agent's
        account, bound to a pod that runs on the node. Raises: BackendUnavailable.
        """
        return False

    def read_logs(
        self,
        ref: TaskRef,
        *,
        follow: bool = False,
        since: datetime | None = None,
        last: int | None = None,
    ) -> Iterator[str]:
        """Yield the lines of a pod's log, each after its time: those after `since`, the `last` so many."""


class BackendUnavailable(ConnectionError):
    """The cluster did not answer; its pods are in an unknown state, not gone."""


class AccessDenied(BackendUnavailable):
    """The cluster does not let the platform's account do this."""


class NamespaceNotOwned(BackendUnavailable):
    """A namespace does not belong to the workspace, so the workspace may not see its content."""


class ConnectionInvalid(BackendUnavailable):
    """The `connection` of a cluster names no way to reach it; the message says which field is wrong."""
