"""Parses and formats memory in job files."""

from __future__ import annotations

import re
from typing import Any, Final

from django.utils.translation import gettext_noop

from foundation.core.quantities import Mebibytes, QuantityError, parse_memory

_NO_UNIT: Final = re.compile(r"[0-9.]+")


def read_memory(text: Any) -> Mebibytes:
    """Return memory that is written with its unit. Raises: QuantityError."""
    # Kubernetes reads a number without a unit as bytes, but a user who writes 64 means 64 GiB.
    if _NO_UNIT.fullmatch(str(text).strip()):
        raise QuantityError(gettext_noop("Specify the memory unit, for example 64Gi or 20480Mi."))
    return parse_memory(text)


def written_memory(mib: int) -> str:
    """Return MiB as text, in Gi if that is a whole number."""
    return f"{mib // 1024}Gi" if mib and mib % 1024 == 0 else f"{mib}Mi"
