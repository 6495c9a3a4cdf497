"""The condition that a job isn't deleted."""

from __future__ import annotations

from typing import Final

from django.db.models import BooleanField, F, Func, Q

from scheduling.models import JobDeletion


class _HasNoDeletion(Func):
    """`NOT EXISTS` as an SQL template, because compiling Django's `Exists` takes ten times as long."""

    template = "NOT EXISTS (SELECT 1 FROM %(deletions)s gone WHERE gone.job_id = %(expressions)s)"
    output_field = BooleanField()


NOT_DELETED: Final = Q(_HasNoDeletion(F("pk"), deletions=JobDeletion._meta.db_table))
"""Jobs that no user deleted.

An outer join with a missing row is equivalent, but PostgreSQL estimates that one row in 200 passes it, and
then sorts all jobs of a queue instead of reading a page from an index.
"""
