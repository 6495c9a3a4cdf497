"""The form of a queue's settings, and the words for presets, states and strategies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import FieldError, Invalid
from frontend.components.ordered_selects import OrderedChoiceField
from frontend.texts.queue_rules import ALLOCATION_MODES, PREEMPT_OTHERS, PREEMPT_WITHIN, STRATEGIES
from quotas.services.queues.queue_preset import Preset

PRESETS: Final[dict[str, tuple[str | Promise, str | Promise]]] = {
    Preset.BALANCED.value: (
        gettext_lazy("Balanced"),
        gettext_lazy("Borrows free quota, reclaims its own, doesn't preempt equal priority."),
    ),
    Preset.THROUGHPUT.value: (
        gettext_lazy("Throughput"),
        gettext_lazy("Also preempts lower priority to borrow."),
    ),
    Preset.DETERMINISTIC.value: (
        gettext_lazy("Deterministic"),
        gettext_lazy("Nominal quota only; never preempts."),
    ),
}
STOPS: Final[dict[str, tuple[str | Promise, str]]] = {
    "none": (gettext_lazy("Active"), "running"),
    "hold": (gettext_lazy("Hold"), "waiting"),
    "hold-and-drain": (gettext_lazy("Hold and drain"), "failed"),
}


class QueueForm(forms.Form):
    """The settings of a queue, with the version that was read."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    strategy = forms.ChoiceField(
        label=gettext_lazy("Queueing strategy"),
        choices=STRATEGIES,
        help_text=gettext_lazy("Best-effort: jobs that fit can start before jobs ahead of them."),
    )
    stop_policy = forms.ChoiceField(
        label=gettext_lazy("State"),
        choices=[
            ("none", gettext_lazy("Active")),
            ("hold", gettext_lazy("Hold: no new admissions")),
            ("hold-and-drain", gettext_lazy("Hold and drain: evict running jobs")),
        ],
    )
    allocation_mode = forms.ChoiceField(
        label=gettext_lazy("Allocation"),
        choices=ALLOCATION_MODES,
    )
    preemption = forms.BooleanField(label=gettext_lazy("Enable preemption"), required=False)
    within_queue = forms.ChoiceField(
        label=gettext_lazy("Within queue"),
        choices=PREEMPT_WITHIN,
    )
    reclaim = forms.ChoiceField(label=gettext_lazy("Reclaim within cohort"), choices=PREEMPT_OTHERS)
    while_borrowing = forms.ChoiceField(label=gettext_lazy("Borrow within cohort"), choices=PREEMPT_OTHERS)
    max_priority = forms.IntegerField(
        label=gettext_lazy("Maximum priority to preempt when borrowing"), required=False
    )
    when_can_borrow = forms.ChoiceField(
        label=gettext_lazy("When borrowing is possible"),
        choices=[
            ("may-stop-search", gettext_lazy("Borrow")),
            ("try-next-flavor", gettext_lazy("Try next pool")),
        ],
    )
    when_can_preempt = forms.ChoiceField(
        label=gettext_lazy("When preemption is possible"),
        choices=[
            ("may-stop-search", gettext_lazy("Preempt")),
            ("try-next-flavor", gettext_lazy("Try next pool")),
        ],
    )
    preference = forms.ChoiceField(
        label=gettext_lazy("Preference"),
        choices=[
            ("borrowing-over-preemption", gettext_lazy("Borrow before preempting")),
            ("preemption-over-borrowing", gettext_lazy("Preempt before borrowing")),
        ],
    )
    backfill = forms.BooleanField(label=gettext_lazy("Backfill"), required=False)
    user_shares = forms.BooleanField(label=gettext_lazy("Fair sharing between users"), required=False)
    flavors = OrderedChoiceField(label=gettext_lazy("Pools, in order of preference"))

    def __init__(self, *args: Any, pools: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer_pools(self, pools)


def offer_pools(form: forms.Form, pools: Sequence[str]) -> None:
    """Offer the pools, by name, as the choices of the field `flavors`."""
    field = form.fields["flavors"]
    if isinstance(field, OrderedChoiceField):
        field.set_choices(pools)


def unknown_pools() -> Invalid:
    """Return the error of pools that don't exist, or of whose name there are several."""
    message = _("Pool not found or ambiguous. Use cluster/pool.")
    return Invalid(message, errors=[FieldError("flavors", "UNKNOWN", message)])
