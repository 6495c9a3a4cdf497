"""Node labels against selectors and required affinity, by Kubernetes' rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduling.engine.model import AffinityOperator, Expression, Taint, TaintEffect, Toleration


def carries(labels: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    """Whether the labels hold every wanted pair."""
    return all(labels.get(key) == value for key, value in wanted)


def holds(labels: Mapping[str, str], expression: Expression) -> bool:
    """Whether one expression is true of the labels. A label that is no whole number fails Gt and Lt."""
    value = labels.get(expression.key)
    match expression.operator:
        case AffinityOperator.EXISTS:
            return value is not None
        case AffinityOperator.DOES_NOT_EXIST:
            return value is None
        case AffinityOperator.IN:
            return value in expression.values
        case AffinityOperator.NOT_IN:
            return value not in expression.values
        case AffinityOperator.GT | AffinityOperator.LT:
            number, bound = _whole(value), _whole(expression.values[0] if expression.values else None)
            if number is None or bound is None:
                return False
            return number > bound if expression.operator is AffinityOperator.GT else number < bound


def satisfies(labels: Mapping[str, str], terms: Iterable[tuple[Expression, ...]]) -> bool:
    """Whether at least one term holds with all its expressions. An empty term matches nothing."""
    return any(bool(term) and all(holds(labels, expression) for expression in term) for term in terms)


def repels(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Whether a taint that keeps tasks away is not tolerated."""
    return any(
        taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        and not any(toleration.covers(taint) for toleration in tolerations)
        for taint in taints
    )


def _whole(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
