"""The id of this installation, by which its objects in clusters differ from those of others."""

from __future__ import annotations

import uuid
from functools import lru_cache

from foundation.models import Installation


@lru_cache(maxsize=1)
def installation_id() -> uuid.UUID:
    """Return the id in the database, created with its tables; each process reads it once."""
    row, _ = Installation.unscoped.get_or_create(number=1)
    return row.uuid
