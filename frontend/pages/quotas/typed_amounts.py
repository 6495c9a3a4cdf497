"""Amounts of resources in the form in which users enter and read them: CPU in cores, memory in GiB."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.numbers import LARGEST
from foundation.core.quantities import Resource
from frontend.pages.quotas.rows import TITLES
from frontend.texts.formats import add_note

TYPED_UNITS: Final[dict[Resource, str | Promise]] = {
    Resource.GPU_CARDS: "",
    Resource.GPU_CORES: "%",
    Resource.GPU_MEMORY: "GiB",
    Resource.CPU: gettext_lazy("cores"),
    Resource.MEMORY: "GiB",
}
"""The unit of a number without a suffix."""
_PLAIN: Final = {"": 1}
_OF_MEMORY: Final = {"": 1024, "Mi": 1, "Gi": 1024, "Ti": 1024 * 1024}
_FACTORS: Final = {
    Resource.GPU_CARDS: _PLAIN,
    Resource.GPU_CORES: _PLAIN,
    Resource.GPU_MEMORY: _OF_MEMORY,
    Resource.CPU: {"": 1000, "m": 1},
    Resource.MEMORY: _OF_MEMORY,
}
"""The size of the unit in the resource's own unit, by the suffix of a number."""
_NUMBER: Final = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,10})?)([A-Za-z]{0,2})")


def format_typed(resource: Resource, amount: int) -> str:
    """Return the exact text of an amount: 2500 millicores are `2.5`, 1 MiB is `0.0009765625`."""
    return format((Decimal(amount) / _FACTORS[resource][""]).normalize(), "f")


def read_typed(resource: Resource, text: str) -> int | None:
    """Return the amount in the resource's own unit; None for another text or fractions of that unit."""
    match = _NUMBER.fullmatch(text)
    factor = _FACTORS[resource].get(match[2]) if match else None
    if match is None or factor is None:
        return None
    amount = Decimal(match[1]) * factor
    return int(amount) if amount == int(amount) and amount <= LARGEST else None


def describe_invalid(resource: Resource) -> str:
    """Return the error message for a text that is no amount."""
    if resource is Resource.CPU:
        return _("Enter cores, for example 2.5 or 500m.")
    if _FACTORS[resource] is _OF_MEMORY:
        return _("Enter GiB or MiB, for example 1.5 or 512Mi.")
    return _('Enter a whole number or "unlimited".')


class AmountField(forms.CharField):
    """The field of an optional amount of one resource; None is empty."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        label = add_note(TITLES[resource], TYPED_UNITS[resource])
        super().__init__(label=label, required=False, max_length=40)

    def clean(self, value: str | None) -> int | None:
        text = super().clean(value)
        amount = read_typed(self._resource, text) if text else None
        if text and not amount:
            raise forms.ValidationError(describe_invalid(self._resource))
        return amount
