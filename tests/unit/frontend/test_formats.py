"""The written form of amounts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import translation

import frontend
from foundation.core import clock
from frontend.texts import formats


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (41, "41 s"),
        (245, "4 min 5 s"),
        (2460, "41 min"),
        (2465, "41 min"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (93780, "1 d 2 h"),
        (None, "–"),
        (-1, "–"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float | None, text: str) -> None:
    assert formats.format_duration(seconds) == text


def test_a_moment_is_seen_from_now() -> None:
    now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    assert formats.format_relative(now - timedelta(minutes=41, seconds=30), now) == "41 min ago"
    assert formats.format_relative(now + timedelta(hours=3), now) == "in 3 h"
    assert formats.format_relative(now, now) == "just now"
    with translation.override("zh-hans"):
        assert formats.format_relative(now - timedelta(minutes=41), now) == "41 分钟前"


@pytest.mark.parametrize(
    ("mebibytes", "text"),
    [
        (512, "512 MiB"),
        (1024, "1 GiB"),
        (1536, "1.5 GiB"),
        (40960, "40 GiB"),
        (2097152, "2,048 GiB"),
        (None, "–"),
    ],
)
def test_memory_is_written_in_gib(mebibytes: int | None, text: str) -> None:
    assert formats.format_memory(mebibytes) == text


def test_a_half_is_rounded_up_however_it_was_computed() -> None:
    """Pages that add GPUs as floats show what pages show that divide whole points."""
    assert formats.format_number(4 - 2.45, 1) == formats.format_gpus(155) == "1.6"
    assert (formats.format_gpus(3145), formats.format_number(-0.25, 1), formats.format_number(0)) == (
        "31.5",
        "-0.3",
        "0",
    )


def test_signs_and_limits() -> None:
    assert [formats.format_signed(value) for value in (8, -20, 0, None)] == ["+8", "−20", "–", "–"]
    assert [formats.format_limit(value) for value in (None, 0, 1234)] == ["unlimited", "0", "1,234"]


def test_a_clock_time_names_the_day_when_it_is_not_today() -> None:
    text = formats.clock_html(datetime(2020, 3, 1, 14, 2, 11, tzinfo=UTC), seconds=True)
    assert "03-01 14:02:11</time>" in text
    assert 'title="2020-03-01 14:02:11 UTC"' in text
    now = clock.now()
    assert f">{now:%H:%M}</time>" in formats.clock_html(now)
    assert f">{now:%m-%d %H:%M}</time>" in formats.clock_html(now, day=True)


def test_sentences_beside_each_other_are_joined_as_their_language_does() -> None:
    """A space between two sentences of a template stays in Chinese, which has none: `join_sentence`."""
    tags = r"(?:\{% (?!translate|blocktranslate|endblocktranslate|card|icon)[^%]*%\})*"
    ended = r"(?:\{% translate \"[^\"]*[.!?]\" %\}|[.!?]\{% endblocktranslate %\})"
    block = r"\{% blocktranslate(?: [^%]*)?%\}(?:(?!\{% endblock)[^<])*?[.!?]\{% (?:endblocktranslate|plural)"
    sentence = rf"(?:\{{% translate \"[^\"]*[.!?]\" %\}}|{block})"
    spaced = re.compile(rf"{ended}{tags}\s+{tags}(?:{sentence}|\{{\{{ )|\}}\}}{tags}\s+{tags}{sentence}")
    assert spaced.search('{% translate "One." %}{% if two %} {% translate "Two." %}{% endif %}')
    templates = Path(frontend.__file__).parent / "templates"
    found = [
        (path.name, match.group()[:100])
        for path in sorted(templates.rglob("*.html"))
        for match in spaced.finditer(path.read_text("utf-8"))
    ]
    assert found == []


def test_the_browser_gets_the_format_of_every_clock_time() -> None:
    templates = Path(frontend.__file__).parent / "templates"
    bare = [
        path.name
        for path in templates.rglob("*.html")
        if re.search(r"data-clock(?!=\"[ms]d?\")", path.read_text("utf-8"))
    ]
    assert bare == [], "without a value it writes how long ago that was"


@pytest.mark.parametrize("sign", [1, -1])
def test_a_half_is_rounded_alike_wherever_an_amount_is_shown(sign: int) -> None:
    for hundredths in range(5, 3000, 10):
        value, tenths = sign * hundredths / 100, hundredths // 10 + 1
        text = f"{tenths / 10:,.1f}".removesuffix(".0")
        minus, shown_sign = ("-", "−") if sign < 0 else ("", "+")
        assert formats.format_number(value, 1).removesuffix(".0") == minus + text
        assert formats.format_gpus(sign * hundredths) == minus + text
        assert formats.format_signed_gpus(sign * hundredths) == shown_sign + text
        assert formats.format_percent(value, 1).removesuffix(" %").removesuffix(".0") == minus + text
        gibibytes = f"{10 + tenths / 10:.1f}".removesuffix(".0")
        assert formats.format_memory(1024 * (10 + hundredths / 100)) == f"{gibibytes} GiB"
