"""Events of GPUs as text, with the usual cause of XID errors."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frontend.components import view_models
from telemetry.models import GpuEvent
from telemetry.series.readings.agents import gpu_events
from telemetry.store.times import from_ms
from tenants.models import User

_WORDS: Final[dict[str, str | Promise]] = {
    "xid": gettext_lazy("XID error"),
    "lost": gettext_lazy("GPU lost"),
    "reset-required": gettext_lazy("Reset required"),
    "driver-mismatch": gettext_lazy("Driver mismatch"),
    "enumerated": gettext_lazy("GPUs enumerated"),
}
_APPLICATION: Final = gettext_lazy("usually caused by the application")
_MEMORY: Final = gettext_lazy("GPU memory error (ECC)")
_DRIVER: Final = gettext_lazy("hardware or driver error")
_REPAIR: Final = gettext_lazy("hardware error; take the GPU out for repair")
# Grouped as in NVIDIA's catalog of XID errors, and by their treatment in large clusters.
_CAUSES: Final[Mapping[int, str | Promise]] = {
    **dict.fromkeys((13, 31, 43, 45), _APPLICATION),
    **dict.fromkeys((48, 63, 64), _MEMORY),
    94: gettext_lazy("GPU memory error (ECC), contained: only the application is affected"),
    95: gettext_lazy("GPU memory error (ECC), not contained: reset the GPU"),
    **dict.fromkeys((32, 38, 61, 62, 68, 92), _DRIVER),
    **dict.fromkeys((74, 79), _REPAIR),
}


def gpu_event_rows(
    who: User, *, node_id: uuid.UUID, device_uuid: str | None = None, most: int, names: Mapping[str, str]
) -> list[view_models.EventRow]:
    """Return the newest events of a node, or of one of its GPUs; `names` names GPUs by UUID.

    Raises: PermissionDenied without `cluster.view`.
    """
    rows = gpu_events(who, node_id=node_id, device_uuid=device_uuid)[:most]
    return [_row(row, names.get(row.device_uuid, "")) for row in rows]


def _row(row: GpuEvent, name: str) -> view_models.EventRow:
    word = str(_WORDS.get(row.kind, row.kind))
    text = word
    if row.kind == "xid":
        cause = _CAUSES.get(row.code)
        text = (
            f"XID {row.code}"
            if cause is None
            else _("XID %(code)s: %(cause)s")
            % {
                "code": row.code,
                "cause": cause,
            }
        )
    return view_models.EventRow(
        at=from_ms(row.at_ms),
        text=f"{name} · {text}" if name else text,
        tag=word,
        tone="done" if row.kind == "enumerated" else "failed",
    )
