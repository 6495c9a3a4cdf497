"""The numbers of jobs beyond a limit: the most that their quota could ever be, a cap or a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from scheduling.engine.model import AllocationMode, Numbers
from tests.truth.oracle.facts import Facts, Lack, Way
from tests.truth.oracle.reported import Fault, ReportedReason


def check_limit(report: ReportedReason) -> Iterator[Fault]:
    """Yield faults in the numbers of a job beyond the largest possible quota."""
    facts, numbers = report.facts, report.numbers
    key = quota_key(numbers)
    ways = [w for w in facts.ways if w.lack is Lack.LIMIT and w.short.get(key) is Lack.LIMIT]
    if not ways:
        yield report.fault("flavor, resource", key, short_quotas(facts.ways, Lack.LIMIT))
        return
    limit = facts.ceiling(key)
    # The report for a job of several roles is about the first that is too much, with those before it.
    asked = {way.asked[key] for way in ways} | _up_to_a_role(ways, key, limit)
    if numbers.get("asked") not in asked:
        yield report.fault("asked", numbers.get("asked"), sorted(asked))
    yield from report.number("limit", limit)
    yield from report.number("available", limit)
    yield from check_capped(report)
    yield from _check_limit_offers(report, [way for way in facts.ways if way.lack is Lack.LIMIT])


def _check_limit_offers(report: ReportedReason, ways: list[Way]) -> Iterator[Fault]:
    for offer in report.outcome.help:
        key = quota_key(offer.numbers)
        limit = report.facts.ceiling(key)
        if "each" in offer.numbers and len(report.job.roles) > 1:
            left = _left_for_a_role(report, str(offer.numbers["role"]), key)
            if offer.numbers["limit"] not in left:
                yield report.fault(f"{offer.code.value} limit", offer.numbers["limit"], sorted(left))
        elif "limit" in offer.numbers and offer.numbers["limit"] != limit:
            yield report.fault(f"{offer.code.value} limit", offer.numbers["limit"], limit)
        if "short" in offer.numbers and limit is not None:
            asked = {way.asked[key] for way in ways} | _up_to_a_role(ways, key, limit)
            actual = sorted(amount - limit for amount in asked if amount > limit)
            if offer.numbers["short"] not in actual:
                yield report.fault(f"{offer.code.value} short", offer.numbers["short"], actual)


def _left_for_a_role(report: ReportedReason, name: str, key: tuple[str, str]) -> set[int]:
    """Return what one role may have of a limit while the others keep their requests."""
    limit = report.facts.ceiling(key)
    if limit is None:
        return set()
    others = replace(report.job, roles=tuple(role for role in report.job.roles if role.name != name))
    return {limit - way.asked.get(key, 0) for way in Facts(report.cell, others).ways}


def _up_to_a_role(ways: Iterable[Way], key: tuple[str, str], limit: int | None) -> set[int]:
    found = set()
    for way in ways:
        asked = 0
        for task, count in zip(way.tasks, way.counts, strict=True):
            if task.flavor.id == key[0]:
                asked += task.charges().get(key[1], 0) * count
                if limit is not None and asked > limit:
                    found.add(asked)
    return found


def check_policy(report: ReportedReason) -> Iterator[Fault]:
    """Yield faults in the numbers of a job beyond a user's cap or a budget."""
    facts, numbers = report.facts, report.numbers
    ways = [way for way in facts.ways if way.lack is Lack.POLICY]
    if "budget_of" in numbers:
        spent = {item.flavor: item for item in report.job.barred}
        item = spent.get(str(numbers.get("flavor")))
        if item is None:
            yield report.fault("flavor", numbers.get("flavor"), sorted(spent))
            return
        yield from report.number("used_hours", item.used_hours)
        yield from report.number("budget_hours", item.budget_hours)
        return
    asked = {facts.of(way.asked, str(numbers.get("resource"))) for way in ways}
    if numbers.get("asked") not in asked:
        yield report.fault("asked", numbers.get("asked"), sorted(asked))
    caps = {(cap.resource, cap.held, cap.limit) for cap in report.job.allowances}
    reported = (numbers.get("resource"), numbers.get("held"), numbers.get("user_limit"))
    if reported not in caps:
        yield report.fault("resource, held, user_limit", reported, sorted(caps))


def check_capped(report: ReportedReason) -> Iterator[Fault]:
    """Yield a fault unless a number says that the job does not borrow because it was evicted so often."""
    facts, job = report.facts, report.job
    dynamic = facts.queue.allocation_mode is AllocationMode.DYNAMIC
    actual = job.evictions if facts.capped and job.preemptible and dynamic else None
    yield from report.number("capped", actual)


def quota_key(numbers: Numbers) -> tuple[str, str]:
    return str(numbers.get("flavor")), str(numbers.get("resource"))


def short_quotas(ways: Iterable[Way], lack: Lack) -> list[object]:
    return sorted({key for way in ways for key, why in way.short.items() if why is lack})
