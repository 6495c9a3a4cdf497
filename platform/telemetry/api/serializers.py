"""Wire format of series."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils.translation import gettext as _
from rest_framework import serializers

from clusters.gpu.measures import BY_NAME, MEASURES
from telemetry.series.measures.measures import ALLOWED_GROUPS, GROUPS, STATISTICS
from telemetry.series.query import LINES
from telemetry.series.windows.window import MAX_POINTS, POINTS
from tenants.api.requests.query import QuerySerializer

_UNITS = ["cards", "percent", *dict.fromkeys(measure.unit or "count" for measure in MEASURES)]


class SeriesQuerySerializer(QuerySerializer):
    """Parameters of `GET /metrics/series`."""

    LEVELS: ClassVar = ["cluster", "node", "job", "gpu", "workspace"]

    level = serializers.ChoiceField(choices=LEVELS)
    id = serializers.UUIDField(
        required=False,
        help_text=(
            "ID of the cluster, node, job, GPU or workspace. If omitted, level `cluster` covers all clusters."
        ),
    )
    gpu = serializers.UUIDField(required=False, help_text="Level `job`: only this GPU of the job.")
    start = serializers.DateTimeField(required=False, help_text="Default: one hour before `end`.")
    end = serializers.DateTimeField(required=False, help_text="Default: now.")
    step = serializers.IntegerField(
        required=False,
        min_value=10,
        help_text=("Seconds per point. Can't be combined with `numberOfSamples`."),
    )
    numberOfSamples = serializers.IntegerField(  # noqa: N815 (the name on the wire)
        required=False,
        min_value=1,
        max_value=MAX_POINTS,
        help_text=f"Approximate number of points; default {POINTS}.",
    )

    lines = serializers.CharField(
        required=False,
        help_text=(
            "Lines of the level, separated by commas, for example `utilisation,memory_used`. If omitted, all "
            "lines. Can't be combined with `measure`."
        ),
    )
    measure = serializers.CharField(
        required=False,
        help_text=(
            "Measures of the catalog, separated by commas: one line per measure and group. If omitted, the "
            "lines of the level."
        ),
    )
    statistic = serializers.ChoiceField(
        choices=STATISTICS,
        required=False,
        help_text=(
            "With `measure`. Default: `mean`, for counters `increase`, for states `last`. `seen`: the bits "
            "of a state that were set at any time."
        ),
    )
    groupBy = serializers.ChoiceField(  # noqa: N815 (the name on the wire)
        choices=GROUPS, required=False, help_text="With `measure`: one line per node, pool, …"
    )

    def validate_lines(self, value: str) -> list[str]:
        return _names(value)

    def validate_measure(self, value: str) -> list[str]:
        names = _names(value)
        unknown = [name for name in names if name not in BY_NAME]
        if unknown or not names:
            raise serializers.ValidationError(_("Unknown measure: %(name)s") % {"name": ", ".join(unknown)})
        return names

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if "step" in attrs and "numberOfSamples" in attrs:
            raise serializers.ValidationError({"step": _("Specify either step or numberOfSamples.")})
        if attrs["level"] != "cluster" and "id" not in attrs:
            message = _("Level %(level)s requires an id.") % {"level": attrs["level"]}
            raise serializers.ValidationError({"id": message})
        if "gpu" in attrs and attrs["level"] != "job":
            raise serializers.ValidationError({"gpu": _("Only for level job.")})
        unknown = [name for name in attrs.get("lines", ()) if name not in LINES[attrs["level"]]]
        if unknown or attrs.get("lines") == []:
            message = _("Unknown line: %(name)s") % {"name": ", ".join(unknown)}
            raise serializers.ValidationError({"lines": message})
        if "lines" in attrs and "measure" in attrs:
            raise serializers.ValidationError({"lines": _("Specify either lines or measure.")})
        if attrs.get("groupBy", "") not in ("", *ALLOWED_GROUPS[attrs["level"]]):
            message = _("Level %(level)s can't be grouped this way.") % {"level": attrs["level"]}
            raise serializers.ValidationError({"groupBy": message})
        if "measure" not in attrs and ("groupBy" in attrs or "statistic" in attrs):
            raise serializers.ValidationError({"measure": _("groupBy and statistic require a measure.")})
        return attrs


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


class SeriesSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="Unique in the response.")
    measure = serializers.CharField()
    subject = serializers.CharField(help_text="Device, `task/device`, `average`, `total`, or empty.")
    label = serializers.CharField()  # type: ignore[assignment]
    unit = serializers.ChoiceField(choices=_UNITS)
    estimated = serializers.BooleanField(
        help_text="True if a value was computed from another measure: energy from power, without a counter."
    )
    values = serializers.ListField(
        child=serializers.FloatField(allow_null=True),
        help_text="One value per entry of `times`; null is a gap, not 0.",
    )


class GapSerializer(serializers.Serializer[Any]):
    cluster_id = serializers.UUIDField()
    cluster = serializers.CharField()
    start = serializers.DateTimeField()
    end = serializers.DateTimeField(allow_null=True)
    cause = serializers.ChoiceField(choices=["unreachable", "empty", "platform"])
    message = serializers.CharField()


class SeriesSetSerializer(serializers.Serializer[Any]):
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    step = serializers.IntegerField(help_text="Seconds per point.")
    times = serializers.ListField(child=serializers.DateTimeField(), help_text="Start of each bucket.")
    series = SeriesSerializer(many=True)
    gaps = GapSerializer(many=True)
    omitted = serializers.IntegerField(help_text="Number of omitted lines.")
