"""Products of columns."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

from django.db.models import BigIntegerField, F
from django.db.models.functions import Cast


def multiply_columns(*columns: str) -> Any:
    """Return the product of whole numbers in 64 bits: the product of 32-bit columns may overflow them."""
    return reduce(mul, (Cast(F(column), BigIntegerField()) for column in columns))
