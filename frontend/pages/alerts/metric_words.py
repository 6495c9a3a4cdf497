"""Labels for the subjects of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

_SUBJECTS: Final[Mapping[str, str | Promise]] = {
    "job": gettext_lazy("Job"),
    "quota": gettext_lazy("Quota"),
    "budget": gettext_lazy("Budget"),
    "gpu": gettext_lazy("GPU"),
    "node": gettext_lazy("Node"),
    "cluster": gettext_lazy("Cluster"),
    "source": gettext_lazy("Data source"),
    "promql": gettext_lazy("Series"),
    "platform": gettext_lazy("Platform"),
}


def name_subject_kind(metric: str) -> str:
    """Return the kind of subject of a metric, in the singular."""
    return str(_SUBJECTS.get(metric.partition(".")[0], ""))
