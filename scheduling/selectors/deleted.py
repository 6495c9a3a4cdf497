"""The condition that a job isn't deleted."""

from __future__ import annotations

from typing import Final

from django.db.models import Exists, OuterRef, Q

from scheduling.models import JobDeletion

NOT_DELETED: Final = ~Q(Exists(JobDeletion.unscoped.filter(job=OuterRef("pk"))))
"""Jobs that no user deleted.

An outer join whose row is missing means the same, but PostgreSQL expects one row in 200 to pass it, and then
sorts all jobs of a queue where it could read a page from an index.
"""
