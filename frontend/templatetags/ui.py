"""The components of a page: cards, tiles, tags, tables, forms, dialogs, live regions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django import template
from django.contrib.messages.storage.base import Message
from django.core.paginator import Page
from django.forms import BoundField, CheckboxInput, Textarea
from django.http import QueryDict
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from frontend.components import view_models
from frontend.components.icons import draw_icon
from frontend.texts import labels, reasons
from frontend.texts.recommendations import recommendation_sentences

register = template.Library()


@register.simple_tag
def icon(name: str, size: int = 16) -> SafeString:
    """Return a decorative line icon; its meaning must be in a text beside it or in an aria-label."""
    return draw_icon(name, size)


@register.filter
def tone(message: Message) -> str:
    """Return the tone of a message of Django's messages framework."""
    return {"success": "running", "warning": "waiting", "error": "failed"}.get(message.level_tag, "info")


@register.simple_tag
def status(kind: str, state: str, title: str = "") -> SafeString:
    """Return the tag of a state; `kind` is `job`, `task`, `node`, `device` or `reason`."""
    word = labels.state_word(kind, state)
    return badge(word.text, word.tone, title)


@register.simple_tag
def badge(text: object, tone: str = "done", title: str = "") -> SafeString:
    """Return a tag with a custom text; `tone` is waiting, running, failed, info or done.

    A list has one tag in each row, for which a template would be slow.
    """
    named = format_html(' title="{}"', title) if title else ""
    return format_html('<span class="tag {}"{}>{}</span>', tone, named, text)


@register.inclusion_tag("frontend/components/job_tags.html")
def job_tags(links: Sequence[tuple[str, str]], most: int | None = None) -> dict[str, object]:
    """Return tags with links, as (name, address); those beyond `most` are counted."""
    shown = links if most is None or len(links) <= most else links[:most]
    return {"links": shown, "more": [name for name, _url in links[len(shown) :]]}


@register.simple_tag
def known_values(key: str, values: Iterable[str]) -> SafeString:
    """Return the list `key` of values that inputs suggest while the user types."""
    options = format_html_join("", '<option value="{}"></option>', ((value,) for value in values))
    return format_html('<datalist id="{}">{}</datalist>', key, options)


@register.inclusion_tag("frontend/components/reason.html")
def reason(
    code: str,
    numbers: Mapping[str, object] | None = None,
    help: bool = False,  # noqa: A002
    found: Iterable[Mapping[str, object]] = (),
) -> dict[str, object]:
    """Return the sentence of a reason code; with `help`, also recommendations (`found` by the engine)."""
    return {
        "sentence": reasons.reason_sentence(code, numbers),
        "helps": recommendation_sentences(code, numbers, found) if help else [],
    }


@register.simple_block_tag
def card(content: str, title: str = "", note: str = "", key: str = "", *, folds: bool = False) -> SafeString:
    """Return a card: heading, a note on the right, content. `key` becomes its id.

    With `folds`, which needs a key, narrow screens show the heading first, and the rest on demand.
    """
    context = {"content": content, "title": title, "note": note, "key": key, "folds": folds}
    return render_to_string("frontend/components/card.html", context)


@register.inclusion_tag("frontend/components/fold.html")
def fold(key: str) -> dict[str, object]:
    """Return the button that unfolds the section with the id `key`, named like its heading."""
    return {"key": key}


@register.inclusion_tag("frontend/components/tile.html")
def tile(
    label: str, value: object, meaning: str = "", *, unit: str = "", tone: str = "", url: str = ""
) -> dict[str, object]:
    """Return one large number with its meaning below; `url` makes the meaning a link."""
    return {"label": label, "value": value, "meaning": meaning, "unit": unit, "tone": tone, "url": url}


@register.inclusion_tag("frontend/components/empty.html")
def empty(
    title: str, hint: str = "", *, name: str = "inbox", url: str = "", action: str = ""
) -> dict[str, object]:
    """Return an empty state: the next step, and who can take it."""
    return {"title": title, "hint": hint, "icon_name": name, "url": url, "action": action}


@register.inclusion_tag("frontend/components/banner.html")
def banner(
    title: str, text: str = "", *, tone: str = "info", url: str = "", action: str = ""
) -> dict[str, object]:
    """Return a message about the whole page; `tone` is info, waiting, failed or running."""
    return {
        "problem": view_models.ProblemBox(title=title, detail=text, tone=tone),
        "url": url,
        "action": action,
    }


@register.inclusion_tag("frontend/components/banner.html")
def problem(problem: view_models.ProblemBox | None, *, url: str = "", action: str = "") -> dict[str, object]:
    """Render a problem: what happened, what was kept, what to do; nothing for None."""
    return {"problem": problem, "url": url, "action": action}


@register.inclusion_tag("frontend/components/confirm.html", takes_context=True)
def confirm(
    context: template.Context,
    key: str,
    title: str,
    *,
    url: str,
    action: str,
    losses: Sequence[str] = (),
    keeps: str = "",
    danger: bool = True,
    fields: Mapping[str, str] | None = None,
    dismiss: str = "",
    more: str = "",
    text_label: str = "",
    text_name: str = "reason",
    text_length: int = 500,
) -> dict[str, object]:
    """Return a dialog that shows what will be lost before it posts to `url`; opened by data-dialog-open.

    With a `text_label` it also asks for a text, which may be empty.
    """
    return {
        "more": more, "text_label": text_label, "text_name": text_name, "text_length": text_length,
        "key": key, "title": title, "url": url, "action": action, "losses": losses, "keeps": keeps,
        "danger": danger, "fields": dict(fields or {}), "dismiss": dismiss,
        "csrf_token": context.get("csrf_token"),
    }  # fmt: skip


@register.inclusion_tag("frontend/components/checks.html")
def checks(items: Iterable[view_models.Check]) -> dict[str, object]:
    """Return the gates that a job has to pass, each with its mark."""
    return {"items": items}


@register.inclusion_tag("frontend/components/helps.html")
def helps(items: Iterable[view_models.HelpItem]) -> dict[str, object]:
    """Render recommendations, best first."""
    return {"items": items}


@register.inclusion_tag("frontend/components/event_list.html")
def event_list(rows: Iterable[view_models.EventRow]) -> dict[str, object]:
    """Return a timeline, one row per event."""
    return {"rows": rows}


@register.inclusion_tag("frontend/components/facts.html")
def facts(pairs: Iterable[tuple[str, object]], columns: bool = False) -> dict[str, object]:
    """Return a key-value list; in `columns` each pair is a small block."""
    return {"pairs": pairs, "columns": columns}


@register.inclusion_tag("frontend/components/code.html")
def code_block(key: str, text: str, label: str = "") -> dict[str, object]:
    """Return a text in a monospace font, with a button that copies it; `key` becomes its id."""
    return {"key": key, "text": text, "label": label}


@register.simple_block_tag
def table(content: str, label: str, stacks: bool = False) -> SafeString:
    """Return a table that scrolls inside its card; with `stacks`, rows become blocks on a phone."""
    return format_html(
        '<div class="table-scroll" role="group" tabindex="0" aria-label="{}">'
        '<table class="{}">{}</table></div>',
        label, "stacks" if stacks else "", content,
    )  # fmt: skip


@register.simple_tag(takes_context=True)
def th(context: template.Context, label: str, *, num: bool = False, sort: str = "") -> SafeString:
    """Return a column's head; with `sort`, a link that sorts by it and reverses on a second click."""
    css = "num" if num else ""
    if not sort:
        return format_html('<th scope="col" class="{}">{}</th>', css, label)
    query = _query(context)
    current = query.get("sort", "")
    query["sort"] = f"-{sort}" if current == sort else sort
    query.pop("page", None)
    order = {sort: "ascending", f"-{sort}": "descending"}.get(current, "none")
    return format_html(
        '<th scope="col" class="{}" aria-sort="{}"><a href="?{}">{}</a></th>',
        css,
        order,
        query.urlencode(),
        label,
    )


@register.inclusion_tag("frontend/components/pages.html", takes_context=True)
def pages(
    context: template.Context, page: Page[Any], label: str = "", *, name: str = "page", place: str = ""
) -> dict[str, object]:
    """Return the total and the page number, keeping the filters of the address; `label` if there are several
    lists.

    `name` is the parameter of the address, and `place` the part of the page to which its links lead.
    """
    query = _query(context)
    query.pop(name, None)
    rest = query.urlencode()
    prefix = f"?{rest}&{name}=" if rest else f"?{name}="
    return {"page": page, "label": label, "prefix": prefix, "place": place}


@register.inclusion_tag("frontend/components/chips.html", takes_context=True)
def chips(
    context: template.Context, name: str, options: Sequence[view_models.Chip], label: str = ""
) -> dict[str, object]:
    """Return filter chips whose choice is the parameter `name` of the address."""
    query = _query(context)
    current = query.get(name, "")
    links = []
    for option in options:
        query.pop("page", None)
        query.pop(name, None)
        if option.value:
            query[name] = option.value
        links.append({"chip": option, "url": f"?{query.urlencode()}", "current": option.value == current})
    return {"links": links, "label": label or name}


@register.inclusion_tag("frontend/components/field.html")
def field(bound: BoundField, *, unit: str = "", code: bool = False) -> dict[str, object]:
    """Return a form field with its label, help and errors, linked for screen readers."""
    widget = bound.field.widget
    about = [f"{bound.auto_id}_help"] if bound.help_text else []
    about += [f"{bound.auto_id}_error"] if bound.errors else []
    attributes: dict[str, Any] = {"aria-describedby": " ".join(about)} if about else {}
    if bound.errors:
        attributes["aria-invalid"] = "true"
    if code and isinstance(widget, Textarea):
        attributes |= {"class": "code", "spellcheck": "false"}
    return {
        "field": bound,
        "control": bound.as_widget(attrs=attributes),
        "is_check": isinstance(widget, CheckboxInput),
        "is_number": getattr(widget, "input_type", "") == "number",
        "is_group": bound.use_fieldset,
        "unit": unit,
    }


@register.simple_block_tag
def live(content: str, url: str, *, key: str, every: int = 5) -> SafeString:
    """Return a region that fetches `url` every so many seconds and changes only the parts that differ."""
    return render_to_string(
        "frontend/components/live.html", {"content": content, "url": url, "key": key, "every": every}
    )


def _query(context: template.Context) -> QueryDict:
    request = context.get("request")
    return request.GET.copy() if request is not None else QueryDict(mutable=True)
