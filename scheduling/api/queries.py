"""Query parameters of job lists."""

from __future__ import annotations

from typing import Final

from rest_framework import serializers

from scheduling.models import JobState
from scheduling.selectors import event, job
from scheduling.selectors.job import DEFAULT_SORT, SORTS
from tenants.api.query import NUMBER_MAX, PAGE, PAGE_MAX, FilterQuery, WordsField

_STATES: Final = tuple(JobState.values)


class JobListQuery(FilterQuery):
    columns = job.COLUMNS

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


class EventQuery(FilterQuery):
    columns = event.COLUMNS

    cursor = serializers.IntegerField(
        default=0, min_value=0, max_value=NUMBER_MAX, help_text="From `next`: ID of the last event."
    )
    limit = serializers.IntegerField(default=PAGE, min_value=1, max_value=PAGE_MAX)
