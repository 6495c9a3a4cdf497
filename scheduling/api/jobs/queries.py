"""Query parameters of job lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rest_framework import serializers

from scheduling.models import JobState
from scheduling.selectors.events import event
from scheduling.selectors.jobs.job import DEFAULT_SORT, SORTS
from scheduling.selectors.jobs.job_filter import ALL_COLUMNS, COLUMNS, JobFilter
from tenants.api.requests.query import NUMBER_MAX, PAGE, PAGE_MAX, FilterQuery, WordsField

_STATES: Final = tuple(JobState.values)


class JobListQuery(FilterQuery):
    columns = COLUMNS

    state = WordsField(words=_STATES, required=False, help_text="One or more, comma-separated.")
    queue = serializers.CharField(required=False)
    name = serializers.CharField(required=False, help_text="Part of the name.")
    submitted_by = serializers.CharField(required=False, help_text="Username.")
    gpu_model = serializers.CharField(required=False, help_text="GPU model requested or allocated.")
    mine = serializers.BooleanField(default=False)
    deleted = serializers.BooleanField(default=False, help_text="Deleted jobs instead of the others.")
    sort = serializers.ChoiceField(choices=[*SORTS, *(f"-{name}" for name in SORTS)], default=DEFAULT_SORT)
    limit = serializers.IntegerField(default=PAGE, min_value=1, max_value=PAGE_MAX)
    cursor = serializers.CharField(required=False, help_text="From `next`.")


def filters_of(query: Mapping[str, Any]) -> JobFilter:
    """Return the filters in the query of a list of jobs."""
    return JobFilter(
        states=query.get("state", ()),
        queue=query.get("queue", ""),
        name=query.get("name", ""),
        submitted_by=query.get("submitted_by", ""),
        gpu_model=query.get("gpu_model", ""),
        tenant=query.get("tenant", ""),
        cluster=query.get("cluster", ""),
        flavor=query.get("flavor", ""),
        mine=query["mine"],
        deleted=query["deleted"],
        conditions=query["conditions"],
    )


class AllJobsQuery(JobListQuery):
    columns = ALL_COLUMNS

    tenant = serializers.CharField(
        required=False, help_text="ID of a workspace, or of a folder with all workspaces in it."
    )
    cluster = serializers.CharField(
        required=False,
        help_text="Cluster of the latest attempt, or that a pending job's queue can use.",
    )
    flavor = serializers.CharField(
        required=False, help_text="Pool of the latest attempt, or that a pending job's queue can use."
    )


class EventQuery(FilterQuery):
    columns = event.COLUMNS

    cursor = serializers.IntegerField(
        default=0, min_value=0, max_value=NUMBER_MAX, help_text="From `next`: ID of the last event."
    )
    limit = serializers.IntegerField(default=PAGE, min_value=1, max_value=PAGE_MAX)
