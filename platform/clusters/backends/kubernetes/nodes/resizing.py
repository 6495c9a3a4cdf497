"""Changes the memory of parts of cards in use, by way of the agent on the pod's node.

The request and the agent's answer are annotations of the pod; nothing is stored here. HAMi's own record,
`vgpu-devices-allocated`, is raised together with the request and lowered after the agent's answer, so its sum
over a card is never less than what may be in use.

A request that no agent has accepted yet is withdrawn by writing the old amounts over it, by compare and swap.
An agent accepts a request by compare and swap as well, so one of the two has to read again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from clusters.backends.base import BackendUnavailable, DeviceGrant, PodOutcome, TaskRef
from clusters.backends.kubernetes.client.api import Denied, Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.nodes import shares
from clusters.backends.kubernetes.pods import pods
from clusters.gpu import hami
from clusters.gpu.hami import CardShare
from clusters.gpu.live_memory import (
    WANTED,
    Amounts,
    AnswerState,
    LiveMemoryFormatError,
    WantedMemory,
    began_with,
    in_effect,
    last_answer,
    parse_wanted,
)
from foundation.core import faults

_NOT_FOUND, _CONFLICT = 404, 409


def resize_devices(api: KubernetesApi, ref: TaskRef, devices: Sequence[DeviceGrant]) -> PodOutcome:
    """Limit a pod's cards to these amounts; done when they are in effect and no other change is under way."""
    ended = PodOutcome.of_refusal("POD_GONE", f"pod {ref.namespace}/{ref.name} has ended")
    pod: Json | None = None
    try:
        pod = api.get(pods.pod_path(ref.namespace, ref.name))
        if ref.uid not in ("", pod["metadata"]["uid"]) or pods.has_ended(pod):
            return ended
        return _step(api, pod, {grant.uuid: grant.memory_mib for grant in devices})
    except shares.NoRoom as error:
        return PodOutcome.of_refusal("CARD_FULL", str(error))
    except (hami.HamiFormatError, LiveMemoryFormatError) as error:
        return PodOutcome.of_refusal("CARDS_UNREADABLE", str(error))
    except Denied as error:
        return PodOutcome.of_unknown(str(error))
    except RequestRefused as error:
        if error.status == _NOT_FOUND:
            return ended
        if pod is None or error.status == _CONFLICT or WANTED in _annotations(pod):
            return PodOutcome.of_unknown(str(error))  # an earlier request may still be carried out
        return PodOutcome.of_refusal(error.reason or f"HTTP_{error.status}", error.message)
    except BackendUnavailable as error:
        return PodOutcome.of_unknown(str(error))


def _step(api: KubernetesApi, pod: Json, target: Amounts) -> PodOutcome:
    held = _held(pod)
    if missing := sorted(target.keys() - held.keys()):
        return PodOutcome.of_refusal("NOT_ITS_CARD", f"the pod holds no slice of GPU {missing[0]}")
    wish, there = _wish(pod), in_effect(pod, target) == target
    if wish is not None and wish.memory_mib == target:
        return _follow(api, pod, wish, there=there)
    if not there:
        return _ask(api, pod, target)
    if wish is not None:  # no agent accepted the present request, and from here on none can
        _write(api, pod, target, allocated=target)
    return PodOutcome.of_success(str(pod["metadata"]["uid"]))


def _follow(api: KubernetesApi, pod: Json, wish: WantedMemory, *, there: bool) -> PodOutcome:
    """Return the outcome of a resize request. `there`: its amounts were in effect before."""
    answer, target, done = (
        last_answer(pod),
        wish.memory_mib,
        PodOutcome.of_success(str(pod["metadata"]["uid"])),
    )
    if answer is None or answer.token != wish.token:
        return done if there else PodOutcome.of_unknown("the agent of its node has not answered")
    if answer.state is AnswerState.TAKEN:
        return PodOutcome.of_unknown("the agent of its node is about to change it")
    if answer.state is AnswerState.REFUSED:
        # It must not be tried later: the pod has to keep its present memory.
        now = in_effect(pod, target) or target
        _write(api, pod, now, allocated=now)
        return PodOutcome.of_refusal(answer.code or "REFUSED", answer.message)
    held = _held(pod)
    if any(held[card].memory_mib != mib for card, mib in target.items()):
        _write(api, pod, None, allocated=target)
    return done


def _ask(api: KubernetesApi, pod: Json, target: Amounts) -> PodOutcome:
    """Write the request; additional memory is charged at once. Raises: NoRoom, RequestRefused."""
    held = _held(pod)
    most = {card: max(mib, held[card].memory_mib) for card, mib in target.items()}
    grown = [card for card, mib in most.items() if mib > held[card].memory_mib]
    if grown:
        shares.check_room(api, pod, [DeviceGrant(card, held[card].cores, most[card]) for card in grown])
    _write(api, pod, target, allocated=most)
    faults.fault_point("kubernetes.after_resize")
    return PodOutcome.of_unknown("asked of the agent of its node")


def _write(api: KubernetesApi, pod: Json, wanted: Amounts | None, *, allocated: Amounts) -> None:
    """Write the request and HAMi's record on the pod exactly as it was read. Raises: RequestRefused."""
    metadata = pod["metadata"]
    annotations: dict[str, Any] = {hami.ALLOCATED: _records(pod, allocated)}
    if wanted is not None:
        # The initial amounts need no request: the container starts with them.
        began = all(mib == began_with(pod) for mib in wanted.values()) and last_answer(pod) is None
        annotations[WANTED] = None if began else WantedMemory(uuid.uuid4().hex, wanted).to_annotation()
    known = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    path = pods.pod_path(metadata["namespace"], metadata["name"])
    api.patch(path, {"metadata": {**known, "annotations": annotations}})


def _wish(pod: Json) -> WantedMemory | None:
    text = _annotations(pod).get(WANTED)
    return parse_wanted(text) if text else None


def _held(pod: Json) -> dict[str, CardShare]:
    """Return HAMi's record of the pod, by card."""
    containers = hami.decode_shares(_annotations(pod).get(hami.ALLOCATED, ""))
    return {share.uuid: share for container in containers for share in container}


def _records(pod: Json, memory_mib: Amounts) -> str:
    """Return HAMi's record of the pod with other amounts and no other change."""
    containers = hami.decode_shares(_annotations(pod).get(hami.ALLOCATED, ""))
    return hami.encode_shares(
        [
            [CardShare(s.uuid, memory_mib.get(s.uuid, s.memory_mib), s.cores) for s in container]
            for container in containers
        ]
    )


def _annotations(pod: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found
