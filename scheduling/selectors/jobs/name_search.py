"""Finding jobs by a part of their names through an index of parts, which PostgreSQL alone has."""

from __future__ import annotations

import uuid

from django.db import connection

from foundation.sql.postgres import preparing_cursor


def jobs_named(workspace: uuid.UUID, part: str, *, most: int) -> list[uuid.UUID] | None:
    """Keys of the jobs of a workspace with `part` in their names, where they are fewer than `most` and the
    database can tell at once; None otherwise.

    The function (migration 0006) shows what the policies on rows would.
    """
    if connection.vendor != "postgresql":
        return None
    pattern = f"%{connection.ops.prep_for_like_query(part)}%"
    with preparing_cursor() as cursor:
        cursor.execute("SELECT allotment_jobs_named(%s, %s, %s)", [workspace, pattern, most])
        found = [key for (key,) in cursor.fetchall()]
    return found if len(found) < most else None
