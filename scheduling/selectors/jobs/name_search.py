"""Finds jobs by a part of their names with a trigram index, which only PostgreSQL has."""

from __future__ import annotations

import uuid
from typing import Final

from django.db import connection
from django.db.models import Q

from foundation.sql.postgres import preparing_cursor
from tenants.models import Tenant

_FEW: Final = 200


def jobs_named(workspace: uuid.UUID | None, part: str, *, most: int) -> list[uuid.UUID] | None:
    """Return the keys of the jobs of a workspace, or of all, with `part` in their names; None if there are
    `most` or more, or if the database has no index to find them.

    The functions (migrations 0001 and 0011) return only rows that row-level security would show.
    """
    if connection.vendor != "postgresql":
        return None
    pattern = f"%{connection.ops.prep_for_like_query(part)}%"
    with preparing_cursor() as cursor:
        if workspace is None:
            cursor.execute("SELECT allotment_jobs_named_anywhere(%s, %s)", [pattern, most])
        else:
            cursor.execute("SELECT allotment_jobs_named(%s, %s, %s)", [workspace, pattern, most])
        found = [key for (key,) in cursor.fetchall()]
    return found if len(found) < most else None


def having_part(part: str, workspace: Tenant | None) -> Q:
    """Return the condition for jobs with that part in their names, which are lower case; by their keys if
    they are few, so that not all names are read."""
    few = jobs_named(workspace.pk if workspace else None, part.lower(), most=_FEW)
    return Q(name__contains=part.lower()) if few is None else Q(pk__in=few)
