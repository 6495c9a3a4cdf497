"""Kubernetes label selectors in their JSON form."""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.conformance.fields import CaseFields
from scheduling.engine import has_labels, matches_expression
from scheduling.engine.model import AffinityOperator, Expression


def match_labels(
    labels: Mapping[str, str], selector: CaseFields, operators: Mapping[str, AffinityOperator]
) -> bool:
    """Return whether labels satisfy `matchLabels` and `matchExpressions`; an empty selector matches all."""
    return has_labels(labels, selector.read_labels("matchLabels").items()) and all(
        matches_expression(
            labels,
            Expression(
                entry.read_text("key"),
                entry.read_choice("operator", operators, AffinityOperator.IN),
                entry.read_texts("values"),
            ),
        )
        for entry in selector.read_objects("matchExpressions")
    )
