"""Parses the placement of a job: where its tasks may run, and where they should preferably run."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from scheduling.engine.model import TolerationOperator
from scheduling.job_file.declaration.fields import fields_below
from scheduling.job_file.parsing.reading import open_part, open_parts, read_part, read_said
from scheduling.job_file.values.levels import LEVELS
from scheduling.job_file.values.section import Section

_ALONE = ("placement.topology", "placement.tolerations")


def read_placement(job: Section) -> dict[str, Any]:
    """Return the placement as normalised JSON, with set fields only, and affinity as lists of terms."""
    part = open_part(job, "placement")
    found = read_said(part, (field for field in fields_below("placement") if field.path not in _ALONE))
    if tolerations := [_toleration(item) for item in open_parts(part, "placement.tolerations")]:
        found["tolerations"] = tolerations
    if part.values.get("topology"):
        found["topology"] = _topology(open_part(part, "placement.topology"))
    return found


def _topology(topology: Section) -> dict[str, Any]:
    found = read_part(topology, "placement.topology")
    level = found.setdefault("level", "")
    if not level or (level not in LEVELS and "/" not in level):
        message = _("Specify a level: %(levels)s, or a node label such as example.com/block.")
        topology.add_problem(
            "level", "CHOICE" if level else "REQUIRED", message % {"levels": ", ".join(LEVELS)}
        )
    return found


def _toleration(item: Section) -> dict[str, Any]:
    found = read_part(item, "placement.tolerations")
    operator = found.get("operator")
    if operator == TolerationOperator.EQUAL and not found.get("key"):
        item.add_problem("key", "REQUIRED", _("Specify the taint, or use the operator Exists."))
    if operator == TolerationOperator.EXISTS and found.get("value"):
        item.add_problem("value", "CONTRADICTION", _("The operator Exists takes no value."))
    return found
