"""The contract between Allotment and a cluster, whatever stands behind it.

A backend is told to make a task's pod exist (`ensure_pod`) or be gone (`remove_pod`); both are idempotent by
name, because a retry after an unknown outcome must find the first object. What really happens is
learnt from `observe_pods`, at least once and in any order; nothing is concluded from silence.
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
"""The label of a pod that tells under which lease of its cell it was admitted."""
HOLD: Final = "allotment.io/hold"
"""The label of a pod that names the hold it was made for, where a database knows of it."""
GRACE_S: Final = 30
"""How long a task may take to leave when its job says nothing."""
Variable = str | Mapping[str, Any]
"""A text, or the entry of a secret or config map that it is read from."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a backend.

    `admits`: it decides admission itself, and the ledger follows it. `resize`: it changes the memory of
    parts of cards while their pod runs."""

    slices: bool = False
    mig: bool = False
    bind: bool = False
    admits: bool = False
    resize: bool = False
    logs: bool = False
    owned: bool = False  # it has an identity, and an object that says which platform runs it
    gangs: bool = False  # it keeps an object for each gang, which has to be dissolved
    claims: bool = False  # pods mount persistent volume claims, which may tie them to nodes


@dataclass(frozen=True, slots=True)
class Owner:
    """The platform that manages a cluster, as the cluster records it.

    The id of an installation, the machine that wrote it last and when, and a token that is another one each
    time. `version` guards the next write.
    """

    installation: str
    token: str
    host: str
    at: datetime
    version: str = ""


@dataclass(frozen=True, slots=True)
class DeviceFact:
    """One card, or one MIG instance with its profile, as the cluster reports it. Memory in MiB, physical.

    Not `healthy`: it takes nothing new, for whatever reason. `broken`: it is known that this very card has
    failed, so what runs on it cannot be trusted to go on. `counted`: only the number of such cards is known,
    the node chooses among them. `cores`: percent points of the card's compute.
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

    `pods`: how many it takes, whoever made them; None for any number.
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
    """Every node the cluster has at this moment."""

    nodes: tuple[NodeFact, ...]


@dataclass(frozen=True, slots=True)
class TaskRef:
    """Names one pod. `uid` guards a removal against deleting a successor of the same name.

    Where no answer has told the uid, `hold` does so: a pod whose label `HOLD` says another one was made for
    a hold of which a database that was restored from a backup does not know.
    """

    namespace: str
    name: str
    uid: str = ""
    hold: str = ""


@dataclass(frozen=True, slots=True)
class GangRef:
    """Names what the pods of one attempt have in common."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class GangSpec:
    """The properties that the pods of one attempt have in common.

    `name` is a DNS label that begins with a letter; where `size` is more than one, each pod is found by
    the others at `<pod>.<name>`. `labels` are those that all its pods carry and no others. `files` are
    read by each pod below `GANG_FOLDER`; they may change when the gang grows or shrinks.
    """

    name: str
    size: int
    labels: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Return whether it is one pod that reads no file, so that no object is shared."""
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
    labels: Mapping[str, str]  # attempt and epoch among them: a stale worker's pod is recognised
    workspace: str  # the id of whom the namespace has to belong to
    gang: GangSpec | None = None
    # How the pod is run beyond that, in the checked words of a job file: `args` to `pre_stop` and `limits` of
    # a role, `volumes`, and `environment_from` to `termination_grace_s` of a job. Only what was said.
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
    """The outcome of a call. `unknown` means: ask again by name, conclude nothing.

    The code of an unknown outcome is `UNKNOWN` when the cluster was asked and may be asked for this object in
    vain, `UNREACHABLE` when nothing was sent or the cluster as a whole did not answer, and `PUT_OFF` when
    nothing was sent because others had to wait too long already.
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
    """A pod as it is. `message` is the kubelet's sentence on a failure.

    `finalizers`: what keeps a pod that was told to end, though its containers may have ended. `node`: where
    it runs or ran; empty where it has none, or the cluster does not say.
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
    """An event of a pod, in the cluster's own words: `count` times so far, the last time `at`."""

    ref: TaskRef
    at: datetime
    reason: str
    message: str
    warning: bool = False
    count: int = 1


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """A node as it is; `fact` is None when the node has left the cluster."""

    name: str
    fact: NodeFact | None
    at: datetime


Observation = PodObservation | NodeObservation


def in_order(observations: Iterable[Observation]) -> tuple[Observation, ...]:
    """Sort by time, nodes first; of two pods of one name the tombstone, so that its successor comes last."""

    def sort_key(seen: Observation) -> tuple[object, ...]:
        if isinstance(seen, NodeObservation):
            return (seen.at, 0, "", seen.name, 0)
        return (seen.at, 1, seen.ref.namespace, seen.ref.name, seen.phase is not PodPhase.REMOVED)

    return tuple(sorted(observations, key=sort_key))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPod:
    """A pod on a node, whoever made it: what it keeps from others. Millicores, MiB.

    `cards` counts cards that the node chooses, by MIG profile, "" for whole ones; `shares` are of cards
    known by uuid. `owner` is what made it, as kind and name. `standing`: it belongs to the node and comes
    back when it ends, as a daemon's pod does. `leaving`: it was told to end and still holds all of it.
    `labels` are those by which the platform marks its pods, with `installation` apart: none for a pod that
    says nothing of the kind.
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
    leaving: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    installation: str = ""


class PodOnNode(NamedTuple):
    """A pod on a node by its name, with what reads the rest: of the platform's own pods, which most are,
    nobody asks what they keep."""

    uid: str
    namespace: str
    name: str
    node: str
    read: Callable[[], BoundPod]


@dataclass(frozen=True, slots=True)
class BoundPods:
    """Pods on nodes that came or changed since a cursor, and the uids of those that hold nothing now.

    `complete`: these are all there are.
    """

    pods: tuple[PodOnNode, ...] = ()
    removed: frozenset[str] = frozenset()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class ObservedBatch:
    """Changes since a cursor. `complete`: these are all pods of the platform there are, so that an absent one
    may be gone; see `pods_exist`. `bound` are the pods on nodes, those of others as well.

    `again_s`: seconds until the next change, of a cluster that knows it or has reason to think so; then it
    is worth another look.
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

    `workspace` is the id of whom the namespace has to belong to. `used`: pods of this workspace were made in
    it before, so a namespace that does not say whose it is may be marked as the workspace's.
    """

    namespace: str
    cards: Mapping[str, int]
    workspace: str
    used: bool = False


class NamespaceState(StrEnum):
    """`unmarked`: of the platform, from before namespaces said whose they are; `foreign`: of anybody else."""

    ABSENT = "absent"
    OWN = "own"
    UNMARKED = "unmarked"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Governed:
    """The objects around a tenant's pods that were missing and were made, and those that had changed and were
    restored.

    `repaired`: by object, and in it by field with dots between its parts, what stood there and what stands
    there now; None for nothing. `refused`: what the cluster did not permit, with its words. `unmarked`:
    namespaces of an earlier version that do not say whose they are.
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
    """The receiver of samples; telemetry registers one."""

    def write(self, cluster_id: str, samples: Iterable[DeviceSample]) -> int:
        """Store samples and return how many were kept."""


@runtime_checkable
class ClusterBackend(Protocol):
    """One cluster. Calls may raise `BackendUnavailable`; then nothing at all is known.

    A backend that subclasses this gets `ensure_many` and `remove_many` as loops, and overrides them
    where one round trip can carry many pods; and a cluster in which nobody else runs
    anything and tenants have no surroundings of their own.
    """

    capabilities: Capabilities

    def check_connection(self) -> None:
        """Find out within a few seconds whether the cluster answers at all. Raises: BackendUnavailable."""

    def list_missing_permissions(self) -> tuple[str, ...] | None:
        """Return the permissions that the platform's account lacks in the cluster, as `get pods/log`; None
        if the cluster does not let it ask."""
        return ()

    def read_inventory(self) -> Inventory: ...

    def ensure_pod(self, spec: TaskSpec) -> PodOutcome:
        """Make the pod exist. A pod of that name with the same labels counts as done."""

    def remove_pod(self, ref: TaskRef, grace_s: int) -> PodOutcome:
        """Ask for the pod's end. Done means accepted or already absent; the end itself is observed."""

    def ensure_many(self, specs: Sequence[TaskSpec]) -> list[PodOutcome]:
        """Make each pod exist; one outcome per spec, in their order. One refusal stops no other pod."""
        return [self.ensure_pod(spec) for spec in specs]

    def remove_many(self, refs: Sequence[TaskRef], grace_s: int) -> list[PodOutcome]:
        """Ask for the end of each pod; one outcome per reference, in their order."""
        return [self.remove_pod(ref, grace_s) for ref in refs]

    def resize_devices(self, ref: TaskRef, devices: Sequence[DeviceGrant]) -> PodOutcome:
        """Give a running pod other amounts of memory of the cards it has, which are all of them named; the
        cores stay.

        Done: that much holds now, and nothing else is under way. Unknown: it was asked for, so what it had
        or what is wanted may hold; ask again, or for the old amounts, which takes it back. Refused: nothing
        of it was done, nor will be.
        """
        return PodOutcome.of_refusal("UNSUPPORTED", "this kind of cluster changes no memory of running pods")

    def mark_schedulable(self, node: str, *, schedulable: bool) -> PodOutcome:
        """Cordon or uncordon a node; one that is so already counts as done.

        Unknown: ask again. Refused: the node is as it was, and the message has the cluster's words.
        """
        return PodOutcome.of_refusal("UNSUPPORTED", "this kind of cluster cordons no nodes")

    def remove_gangs(self, gangs: Sequence[GangRef]) -> list[PodOutcome]:
        """Remove what gangs had in common, after their last pod; one outcome each, absent is done."""
        return [PodOutcome.of_success() for _ in gangs]

    def list_gangs(self) -> list[tuple[GangRef, Mapping[str, str]]]:
        """Return the shared objects of gangs that exist now, with the labels of each."""
        return []

    def observe_pods(self, cursor: str | None, *, whole: bool = False) -> ObservedBatch:
        """Changes since `cursor`; None asks for everything and gives a complete batch.

        `whole`: every pod of the platform and every node beside the changes, which is a complete batch as
        well; of pods of others what changed.
        """

    def read_identity(self) -> str:
        """The uid of the cluster, which stays the same behind another address; empty where it has none."""
        return ""

    def read_owner(self) -> Owner | None:
        """The platform that the cluster names as its owner; None when it names none."""
        return None

    def write_owner(self, owner: Owner) -> None:
        """Write the owner into the cluster, unless it was changed since `owner.version`.

        Raises: BackendUnavailable, in that case as well.
        """

    def remove_owner(self) -> None:
        """Remove the owner from the cluster."""

    def pods_exist(self, refs: Sequence[TaskRef]) -> list[bool]:
        """One flag for each pod that a complete batch lacked: True when a read by uid or name finds it.

        A label or a selector may hide a pod that runs.
        """
        return [False for _ in refs]

    def list_objects(self, kind: str) -> list[Mapping[str, Any]]:
        """All objects of a kind as the cluster has them, for checks that share no code with observation.

        Kinds: `nodes`, `pods`, `configmaps`, `services`, `namespaces`. None where there are no such objects.
        """
        return []

    def ensure_namespaces(self, limits: Sequence[TenantLimits]) -> Governed:
        """Bring the namespaces of tenants in line, those that exist."""
        return Governed()

    def namespace_state(self, name: str, workspace: str) -> NamespaceState:
        """The owner of a namespace as seen from a workspace, given by its id. Raises: BackendUnavailable."""
        return NamespaceState.OWN

    def namespace_adopt(self, name: str, workspace: str) -> None:
        """Mark a namespace that is there as that of a workspace, whosever it was.

        Raises: BackendUnavailable, with the cluster's words where it does not permit it.
        """

    def list_volume_claims(self, namespace: str, workspace: str) -> list[VolumeClaim] | None:
        """Return the volume claims in the namespace of a workspace, which is given by its id, by name.

        Returns None if the cluster has no namespaces, or if the namespace is missing. Raises:
        BackendUnavailable, as NamespaceNotOwned if the namespace belongs to another owner.
        """
        return None

    def read_volume_terms(self, volumes: Sequence[str]) -> Mapping[str, NodeTerms | None]:
        """Return the required node affinity of persistent volumes by name, without those that can't be read.

        No terms: every node; None: no such volume. Raises: BackendUnavailable, as AccessDenied where no
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
        """Return the same of volume claims, whose namespaces and names `refs` are."""
        return []

    def read_samples(self) -> Iterable[DeviceSample]: ...

    def read_reports(self) -> Sequence[AgentReport]:
        """Return facts, processes and events of GPUs, where the cluster tells what node agents report."""
        return ()

    def verify_agent(self, token: str, node: str) -> bool:
        """Tell whether the cluster confirms that a token for the platform is that of the node agent's
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
        """Lines of a pod with their times in front: those after `since`, the `last` so many of them."""


class BackendUnavailable(ConnectionError):
    """The cluster did not answer; what it holds is unknown, not gone."""


class AccessDenied(BackendUnavailable):
    """The cluster does not let the platform's account do this."""


class NamespaceNotOwned(BackendUnavailable):
    """A namespace does not belong to the workspace; what is in it is not the workspace's to know."""


class ConnectionInvalid(BackendUnavailable):
    """The `connection` of a cluster names no way to reach it; the message says which field is wrong."""
