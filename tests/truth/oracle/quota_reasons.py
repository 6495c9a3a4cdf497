"""The numbers of jobs that lack quota: what is asked for, free, borrowable and missing."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from scheduling.engine.model import HelpCode
from tests.truth.oracle.facts import Facts, Lack, Spare, Way, lacks
from tests.truth.oracle.limit_reasons import check_capped, quota_key, short_quotas
from tests.truth.oracle.reported import Fault, ReportedReason


def check_quota(report: ReportedReason) -> Iterator[Fault]:
    """Yield faults in the numbers of a job that lacks quota, and in its recommendations."""
    facts, numbers = report.facts, report.numbers
    lacking = lacks(facts)
    key = quota_key(numbers)
    ways = [w for w in facts.ways if w.lack in lacking and (w.short.get(key) in lacking or key in w.spare)]
    if not ways:
        actual = short_quotas((w for w in facts.ways if w.lack in lacking), facts.lack)
        yield report.fault("flavor, resource", key, actual)
        return
    asked = {way.asked[key] for way in ways}
    if numbers.get("asked") not in asked:
        yield report.fault("asked", numbers.get("asked"), sorted(asked))
        return
    ways = [way for way in ways if way.asked[key] == numbers["asked"]]
    spare = next((way.spare[key] for way in ways if key in way.spare), None)
    short = _missing(facts, ways[0], key) or 0
    if spare is not None and (numbers.get("rule") or not short):
        yield from _check_spare(report, spare)
    else:
        yield from _check_own_and_borrowed(report, key, int(numbers["asked"]), short)
    yield from _check_offers(report, ways)
    yield from _check_raised_together(report, ways)
    yield from check_capped(report)


def _check_spare(report: ReportedReason, spare: Spare) -> Iterator[Fault]:
    """Yield faults for a borrowing job beside which something must stay unused."""
    rule = "drained" if report.job.drained else "spare" if report.job.evictions else "headroom"
    if report.numbers.get("rule", rule) != rule:
        yield report.fault("rule", report.numbers["rule"], rule)
    yield from report.number("keep_free", spare.keep)
    yield from report.number("unused", max(0, spare.unused))
    yield from report.number("evictions", report.job.evictions or None)
    yield from report.number("available", max(0, spare.unused - spare.keep))


def _check_offers(report: ReportedReason, ways: Iterable[Way]) -> Iterator[Fault]:
    """Yield faults in the missing amount of each recommendation other than more quota."""
    known = list(ways)
    for offer in report.outcome.help:
        reported = offer.numbers.get("short")
        if reported is None or offer.code is HelpCode.RAISE_QUOTA:
            continue
        actual = [_enough(report.facts, way, quota_key(offer.numbers)) for way in known]
        if not any(reported in amounts for amounts in actual):
            yield report.fault(f"{offer.code.value} short", reported, actual)


def _check_raised_together(report: ReportedReason, ways: Iterable[Way]) -> Iterator[Fault]:
    """Yield a fault unless the recommended quota avoids borrowing, for all resources of a way if a rule
    forbids to borrow; without a rule the missing amount suffices."""
    offers = (offer.numbers for offer in report.outcome.help if offer.code is HelpCode.RAISE_QUOTA)
    reported = {quota_key(numbers): int(numbers["short"]) for numbers in offers}
    actual = []
    for way in ways:
        missing = {key: _missing(report.facts, way, key) or 0 for key in way.asked}
        borrowed = {key: report.facts.borrowed(key, way.asked[key]) for key in way.asked}
        whole = {key: most for key in way.asked if (most := max(missing[key], borrowed[key])) > 0}
        actual.append(whole)
        if not report.numbers.get("rule") and all(
            short in (missing.get(key), whole.get(key)) for key, short in reported.items()
        ):
            return
    if reported and reported not in actual:
        yield report.fault("RAISE_QUOTA together", reported, actual)


def _check_own_and_borrowed(
    report: ReportedReason, key: tuple[str, str], amount: int, short: int
) -> Iterator[Fault]:
    facts, reported = report.facts, report.numbers.get("available")
    if reported not in {amount - short, max(0, amount - short)}:
        yield report.fault("available", reported, amount - short)
    owned, had = facts.tree.owned(facts.leaf, key), max(0, amount - short)
    own = had if owned is None else min(had, max(0, owned - facts.against(key)))
    yield from report.number("own_free", own)
    yield from report.number("borrowable", had - own)
    yield from report.number("used", facts.tree.usage(facts.leaf, key))
    yield from report.number("counted", facts.against(key))
    yield from report.number("nominal", owned)
    yield from report.number("limit", facts.ceiling(key))
    yield from report.number("short", short)


def _missing(facts: Facts, way: Way, key: tuple[str, str]) -> int | None:
    """Return what is missing of one quota of a way; None if nothing is."""
    asked, can = way.asked[key], facts.available(key)
    return None if can is None or can >= asked else asked - can


def _enough(facts: Facts, way: Way, key: tuple[str, str]) -> Container[int]:
    """Return the amounts of one quota that may be reported as missing: the missing amount, and what must
    stay unused beside an evicted job. Empty if nothing lacks."""
    missing, spare = _missing(facts, way, key), way.spare.get(key)
    if spare is None:
        return () if missing is None else (missing,)
    least, most = (max(missing or 0, amount) for amount in (spare.enough.start, spare.enough.stop - 1))
    rest = range(least, most + 1)
    # If its own queue must release something, the rest is reported once nothing else is missing.
    return rest if way.lack is Lack.BORROWED or missing is None else _Either(missing, rest)


@dataclass(frozen=True)
class _Either:
    """One amount, or one of a range."""

    one: int
    rest: range

    def __contains__(self, amount: object) -> bool:
        return amount == self.one or amount in self.rest
