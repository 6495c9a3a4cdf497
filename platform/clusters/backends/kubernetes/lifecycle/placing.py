"""Creates a task's pod on the node that the engine chose.

The pod is created and then bound; its scheduler name keeps every other scheduler away from it. After a
failure in between, the object of that name is read; a second one is never created.

There are two calls, although a pod could name its node at its creation: a worker may be paused after any
check, and send its call when the allocation has long been released. A creation that late leaves a pod that no
node runs, and a late binding is refused, because it names the uid of a deleted pod.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from clusters.backends.base import (
    EPOCH,
    HOLD,
    PUT_OFF,
    UNKNOWN,
    UNREACHABLE,
    BackendUnavailable,
    GangSpec,
    OutcomeKind,
    PodOutcome,
    TaskSpec,
)
from clusters.backends.kubernetes.client.api import (
    Denied,
    Json,
    KubernetesApi,
    ObjectNameTaken,
    OutcomeUnknown,
    RequestRefused,
)
from clusters.backends.kubernetes.client.workers import Workers
from clusters.backends.kubernetes.lifecycle.gangs import gang_ensure, owner_reference
from clusters.backends.kubernetes.namespaces.making import ensure_object, get_object
from clusters.backends.kubernetes.namespaces.namespaces import namespace_found
from clusters.backends.kubernetes.nodes import shares
from clusters.backends.kubernetes.nodes.bound import sum_requests
from clusters.backends.kubernetes.nodes.held import shares_of
from clusters.backends.kubernetes.pods import pods
from clusters.backends.kubernetes.pods.containers import SpecInvalid
from clusters.gpu.hami import HamiFormatError
from foundation.core import faults

_CONFLICT: Final = 409
_OF_A_GANG: Final = 3
_OF_A_NAMESPACE: Final = 4


class _Unanswered:
    """Counts a round's creations without an answer. Each takes the time of a whole call, and others wait.

    So after `_OF_A_GANG` of them the rest of a gang waits for another round, and after those of
    `_OF_A_NAMESPACE` gangs all other pods of their workspace wait.
    """

    def __init__(self) -> None:
        self._gangs: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def must_wait(self, spec: TaskSpec) -> bool:
        """Return whether the pod has to wait."""
        gangs = self._gangs[spec.ref.namespace]
        return gangs[_gang_name(spec)] >= _OF_A_GANG or len(gangs) >= _OF_A_NAMESPACE

    def note_outcome(self, spec: TaskSpec, outcome: PodOutcome) -> None:
        """Count an outcome, if it is a creation without an answer."""
        if outcome.kind is OutcomeKind.UNKNOWN and outcome.code == UNKNOWN:
            self._gangs[spec.ref.namespace][_gang_name(spec)] += 1


def ensure_many(api: KubernetesApi, specs: Sequence[TaskSpec]) -> list[PodOutcome]:
    """Create each pod unless it exists; one outcome per spec, in their order.

    Pods that share the cards of one node are placed one after the other, all others concurrently. The
    namespace is checked to be the workspace's before anything is created in it. The shared objects of a gang
    are created before its first pod; a pod without shared objects is owned by its namespace.
    """
    lanes: defaultdict[object, list[int]] = defaultdict(list)
    for number, spec in enumerate(specs):
        lanes[spec.node if pods.on_shares(spec) else number].append(number)
    outcomes: dict[int, PodOutcome] = {}
    unanswered = _Unanswered()
    with Workers() as workers:
        gangs = {_gang(spec): spec.gang for spec in specs}
        # Each call is submitted before those that wait for it, so that none waits for a call that has not
        # begun.
        homes = {
            home: workers.submit(namespace_found, api.for_subject(home[0]), *home)
            for home in dict.fromkeys((spec.ref.namespace, spec.workspace) for spec in specs)
        }
        owners = {
            key: workers.submit(_owner, api.for_subject(key[0]), homes[key[:2]], key, gang)
            for key, gang in gangs.items()
        }

        def place_pods(lane: list[int]) -> None:
            for number in lane:
                spec = specs[number]
                if unanswered.must_wait(spec):
                    text = "others of its workspace had no answer in this round"
                    outcomes[number] = PodOutcome.of_unknown(text, PUT_OFF)
                    continue
                # A failure of one workspace alone must not open the breaker for others.
                outcome = _ensure(api.for_subject(spec.ref.namespace), spec, owners[_gang(spec)])
                outcomes[number] = outcome
                unanswered.note_outcome(spec, outcome)

        list(workers.map(place_pods, lanes.values()))
    return [outcomes[number] for number in range(len(specs))]


def _gang_name(spec: TaskSpec) -> str:
    """Return the name that distinguishes the pods of one attempt from all others of their workspace."""
    return spec.gang.name if spec.gang else spec.ref.name


def _gang(spec: TaskSpec) -> tuple[str, str, str]:
    """Return the owner's name: "" in the place of the gang's name if it is its namespace."""
    name = spec.gang.name if spec.gang and not spec.gang.alone else ""
    return (spec.ref.namespace, spec.workspace, name)


def _owner(api: KubernetesApi, home: Future[Json], key: tuple[str, str, str], gang: GangSpec | None) -> Json:
    namespace = home.result()
    if gang is None or gang.alone:
        return namespace
    return gang_ensure(api, key[0], key[1], gang)


def _ensure(api: KubernetesApi, spec: TaskSpec, owner: Future[Json]) -> PodOutcome:
    try:
        manifest = pods.build_manifest(spec, api.installation, owner=owner_reference(owner.result()))
        pod = _ours(
            api,
            ensure_object(api, pods.pod_path(spec.ref.namespace), manifest, spec.workspace),
            spec,
            manifest,
        )
        faults.fault_point("kubernetes.after_create")
        _bind(api, spec, pod)
        faults.fault_point("kubernetes.after_bind")
    except SpecInvalid as error:
        return PodOutcome.of_refusal("INVALID", str(error))
    except HamiFormatError as error:
        return PodOutcome.of_refusal("CARDS_UNREADABLE", str(error))
    except shares.NoRoom as error:
        return PodOutcome.of_refusal("CARD_FULL", str(error))
    except ObjectNameTaken as error:
        return PodOutcome.of_refusal(error.code, str(error))
    except (Denied, OutcomeUnknown) as error:
        return PodOutcome.of_unknown(str(error))
    except RequestRefused as error:
        return PodOutcome.of_refusal(error.reason or f"HTTP_{error.status}", error.message)
    except BackendUnavailable as error:
        return PodOutcome.of_unknown(str(error), UNREACHABLE)
    return PodOutcome.of_success(pod["metadata"]["uid"])


def _ours(api: KubernetesApi, pod: Json, spec: TaskSpec, wanted: Json) -> Json:
    """Return the existing pod, if it was created for this task: the answer was lost, or the database was.

    A pod of the same job and attempt for another allocation, which a restored database does not know, is
    adopted if it is as wanted now, and left alone otherwise. Raises: ObjectNameTaken.
    """
    said, asked = dict(pods.labels_of(pod)), dict(spec.labels)
    hold = asked.pop(HOLD, "")
    same = said.pop(HOLD, hold) == hold
    if not same:  # another allocation has another epoch, too
        said.pop(EPOCH, None)
        asked.pop(EPOCH, None)
    taken = said != asked or pods.is_of_another(pod, api.installation)
    if taken or not (same or _is_as_wanted(pod, spec, wanted)):
        name = f"{spec.ref.namespace}/{spec.ref.name}"
        raise ObjectNameTaken("NAME_TAKEN", f"a pod {name} that was made for something else exists")
    return pod


def _is_as_wanted(pod: Json, spec: TaskSpec, wanted: Json) -> bool:
    """Return whether a pod is on the chosen node and has the cards of its allocation."""
    shares = spec.devices if pods.on_shares(spec) else ()
    try:
        held = [(share.uuid, share.cores, share.memory_mib) for share in shares_of(pod)]
    except HamiFormatError:
        return False
    return (
        pod["spec"].get("nodeName", "") in ("", spec.node)
        and sum_requests(pod["spec"]) == sum_requests(wanted["spec"])
        and held in ([], [(share.uuid, share.cores, share.memory_mib) for share in shares])
    )


def _bind(api: KubernetesApi, spec: TaskSpec, pod: Json) -> None:
    if _bound(pod, spec):
        return
    binding: Json = {
        "apiVersion": "v1",
        "kind": "Binding",
        # The uid is a precondition, so that a later pod of the same name is not bound.
        "metadata": {"name": spec.ref.name, "namespace": spec.ref.namespace, "uid": pod["metadata"]["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": spec.node},
    }
    if pods.on_shares(spec):
        binding["metadata"]["annotations"] = shares.reserve_shares(api, spec)
    try:
        api.create_object(pods.pod_path(spec.ref.namespace, spec.ref.name) + "/binding", binding)
    except (OutcomeUnknown, RequestRefused) as error:
        if isinstance(error, RequestRefused) and error.status != _CONFLICT:
            raise
        if not _bound(get_object(api, pods.pod_path(spec.ref.namespace), spec.ref.name), spec):
            raise


def _bound(pod: Json, spec: TaskSpec) -> bool:
    node = pod["spec"].get("nodeName", "")
    if node and node != spec.node:
        name = f"{spec.ref.namespace}/{spec.ref.name}"
        raise ObjectNameTaken("BOUND_ELSEWHERE", f"pod {name} is bound to {node}, not to {spec.node}")
    return bool(node)
