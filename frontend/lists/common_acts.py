"""Actions that many lists offer: enable, disable and delete rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext as _

from frontend.lists.batch import BatchAct


def build_switch_acts(
    enable_title: str,
    disable_title: str,
    set_enabled: Callable[[Any, bool], object],
    is_enabled: Callable[[Any], bool],
) -> list[BatchAct]:
    """Return the actions that enable and disable rows; `is_enabled` takes a line of the list."""
    return [
        BatchAct(
            key="enable",
            label=_("Enable"),
            title=enable_title,
            act=lambda row, _choice: set_enabled(row, True),
            icon="play",
            fits=lambda line: not is_enabled(line),
        ),
        BatchAct(
            key="disable",
            label=_("Disable"),
            title=disable_title,
            act=lambda row, _choice: set_enabled(row, False),
            icon="pause",
            fits=is_enabled,
        ),
    ]


def build_delete_act(title: str, delete: Callable[[Any], object], note: str) -> BatchAct:
    """Return the action that deletes rows; `note` says what happens to the objects that belong to them."""
    return BatchAct(
        key="delete",
        label=_("Delete"),
        title=title,
        act=lambda row, _choice: delete(row),
        danger=True,
        note=note,
        icon="trash-2",
    )
