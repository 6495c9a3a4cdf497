"""The id of this installation, which tells what it makes in clusters from what others make there."""

from __future__ import annotations

import uuid
from functools import lru_cache

from foundation.models import Installation


@lru_cache(maxsize=1)
def installation_id() -> uuid.UUID:
    """The id in the database, made with its tables; asked once by each process."""
    row, _ = Installation.unscoped.get_or_create(number=1)
    return row.uuid
