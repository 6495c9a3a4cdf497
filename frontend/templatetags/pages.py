"""Small words that only pages need."""

from __future__ import annotations

from django import template

from frontend.texts import formats, labels, reasons

register = template.Library()


@register.filter
def join_text(left: object, right: object) -> str:
    """Two values as one text; `add` would fail on an id."""
    return f"{left}{right}"


@register.filter
def join_sentence(sentence: str, next_one: str) -> str:
    """Two sentences as one text, joined as their language does."""
    return formats.join_html([sentence, next_one])


@register.filter
def cards(value: float | None) -> str:
    """GPUs with at most one decimal, and none where they are whole: `19`, `0.5`."""
    return formats.format_number(value, 0 if value is None or round(value, 1) == round(value) else 1)


@register.filter
def reason_title(code: str) -> str:
    """The few words that name a reason."""
    return reasons.reason_title(code)


@register.filter
def rule_word(rule: str) -> str:
    """The word of the rule that ended an attempt."""
    return labels.rule_word(rule)


@register.filter
def kind_word(kind: str) -> str:
    """The word of a job's kind."""
    return labels.kind_word(kind)
