"""Kubernetes label selectors as they stand in objects."""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.conformance.fields import Fields
from scheduling.engine import label_holds, labels_carry
from scheduling.engine.model import AffinityOperator, Expression


def matches(labels: Mapping[str, str], selector: Fields, operators: Mapping[str, AffinityOperator]) -> bool:
    """Whether labels satisfy `matchLabels` and `matchExpressions`; an empty selector takes everything."""
    return labels_carry(labels, selector.pairs("matchLabels").items()) and all(
        label_holds(
            labels,
            Expression(
                entry.text("key"),
                entry.choice("operator", operators, AffinityOperator.IN),
                entry.texts("values"),
            ),
        )
        for entry in selector.parts("matchExpressions")
    )
