"""Making a task's pod exist on the node that the engine chose.

The pod is created under its own name and then bound, because its own scheduler name keeps every other
scheduler away. Whatever goes wrong in between is settled by looking at the object of that name, never
by making a second one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from clusters.backends.base import BackendUnavailable, Outcome, TaskSpec
from clusters.backends.kubernetes import pods, shares
from clusters.backends.kubernetes.api import Api, Json, OutcomeUnknown, Refused
from clusters.backends.kubernetes.namespaces import namespace_ensure
from clusters.gpu.hami import HamiFormatError

_AT_ONCE: Final = 16
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409


class _Elsewhere(Exception):
    """The name, or the pod of that name, is taken; `code` and the text say by what."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def ensure_many(api: Api, specs: Sequence[TaskSpec]) -> list[Outcome]:
    """Make each pod exist; one outcome per spec, in their order.

    Pods that share the cards of one node are placed one after the other, all others side by side.
    """
    lanes: defaultdict[object, list[int]] = defaultdict(list)
    for number, spec in enumerate(specs):
        lanes[spec.node if pods.on_shares(spec) else number].append(number)
    outcomes: dict[int, Outcome] = {}

    def place(lane: list[int]) -> None:
        for number in lane:
            outcomes[number] = ensure(api, specs[number])

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as workers:
        list(workers.map(place, lanes.values()))
    return [outcomes[number] for number in range(len(specs))]


def ensure(api: Api, spec: TaskSpec) -> Outcome:
    """Make one pod exist, bound to its node."""
    try:
        pod = _created(api, spec)
        _bind(api, spec, pod)
    except pods.SpecInvalid as error:
        return Outcome.refused("INVALID", str(error))
    except HamiFormatError as error:
        return Outcome.refused("CARDS_UNREADABLE", str(error))
    except shares.NoRoom as error:
        return Outcome.refused("CARD_FULL", str(error))
    except _Elsewhere as error:
        return Outcome.refused(error.code, str(error))
    except Refused as error:
        return Outcome.refused(error.reason or f"HTTP_{error.status}", error.message)
    except BackendUnavailable as error:
        return Outcome.unknown(str(error))
    return Outcome.done(pod["metadata"]["uid"])


def _created(api: Api, spec: TaskSpec) -> Json:
    """The pod of the spec's name, made now or before."""
    manifest, pods_of_namespace = pods.manifest(spec), pods.path(spec.ref.namespace)
    try:
        try:
            return api.create(pods_of_namespace, manifest)
        except Refused as error:
            if not _homeless(error):
                raise
            namespace_ensure(api, spec.ref.namespace)
            return api.create(pods_of_namespace, manifest)
    except OutcomeUnknown:
        return _ours(_found(api, spec), spec)
    except Refused as error:
        # A quota that is used up refuses a name before it is seen that the name exists.
        if error.status not in (_CONFLICT, _FORBIDDEN):
            raise
        try:
            return _ours(_found(api, spec), spec)
        except OutcomeUnknown:
            raise error from None


def _homeless(error: Refused) -> bool:
    """Whether the namespace is missing, or its account: somebody may have made the one without the other."""
    return error.status == _NOT_FOUND or (
        error.status == _FORBIDDEN and pods.SERVICE_ACCOUNT in error.message
    )


def _found(api: Api, spec: TaskSpec) -> Json:
    """The pod of the spec's name. Raises: OutcomeUnknown if there is none yet."""
    try:
        return api.get(pods.path(spec.ref.namespace, spec.ref.name))
    except Refused as error:
        if error.status != _NOT_FOUND:
            raise
        # A lost call may still be carried out: the next try finds the pod, or makes it.
        raise OutcomeUnknown(f"pod {spec.ref.namespace}/{spec.ref.name} is not there yet") from error


def _ours(pod: Json, spec: TaskSpec) -> Json:
    if pods.labels_of(pod) != dict(spec.labels):
        name = f"{spec.ref.namespace}/{spec.ref.name}"
        raise _Elsewhere("NAME_TAKEN", f"a pod {name} with other labels exists")
    return pod


def _bind(api: Api, spec: TaskSpec, pod: Json) -> None:
    if _bound(pod, spec):
        return
    binding: Json = {
        "apiVersion": "v1",
        "kind": "Binding",
        # The uid is a precondition: a pod of the same name that came later is not meant.
        "metadata": {"name": spec.ref.name, "namespace": spec.ref.namespace, "uid": pod["metadata"]["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": spec.node},
    }
    if pods.on_shares(spec):
        binding["metadata"]["annotations"] = shares.reserve(api, spec)
    try:
        api.create(pods.path(spec.ref.namespace, spec.ref.name) + "/binding", binding)
    except (OutcomeUnknown, Refused) as error:
        if isinstance(error, Refused) and error.status != _CONFLICT:
            raise
        if not _bound(_found(api, spec), spec):
            raise


def _bound(pod: Json, spec: TaskSpec) -> bool:
    node = pod["spec"].get("nodeName", "")
    if node and node != spec.node:
        name = f"{spec.ref.namespace}/{spec.ref.name}"
        raise _Elsewhere("BOUND_ELSEWHERE", f"pod {name} is bound to {node}, not to {spec.node}")
    return bool(node)
