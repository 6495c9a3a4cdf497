"""Reads one or many sources and converts their answers to readings. Uses the network, and no database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final, TypeVar

import structlog

from telemetry.models import SourceKind
from telemetry.sources import fetch
from telemetry.sources.adapt import names_of, read_samples
from telemetry.sources.declarations import EXPORTERS, MeasureOrigin
from telemetry.sources.exposition import parse_exposition
from telemetry.sources.fetch import Access, SourceFailed, SourceProblem
from telemetry.sources.prometheus import newest_samples, scrape_interval_ms, select_window
from telemetry.sources.samples import RawSample, Readings

log = structlog.get_logger(__name__)

WINDOW_S: Final = 90
"""How far back a Prometheus server is read: three scrapes of the 30 s that exporters recommend."""
PASS_TIMEOUT_S: Final = 12.0
_WORKERS: Final = 32
_AHEAD_MS: Final = 300_000

# The exporters that a Prometheus server may have scraped. The legacy names of HAMi's monitor and of Volcano's
# are the same, so one reader is enough for both.
_SCRAPED: Final = tuple(origin for origin in EXPORTERS if origin != MeasureOrigin.VOLCANO_MONITOR)


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """The requests for a source. `nodes` are the names that replace `{node}` in the address."""

    key: str
    kind: SourceKind
    address: str
    every_s: int = 15
    matchers: Mapping[str, str] = field(default_factory=dict)
    access: Access = field(default_factory=Access)
    nodes: Sequence[str] = ()
    timeout_s: float = fetch.FETCH_TIMEOUT_S


@dataclass(slots=True)
class SourceResult:
    """The result of reading one source. `failed` is the first failure of one of its endpoints.

    `samples` counts declared metrics that were read, `unreadable` those that could not be.
    """

    readings: dict[MeasureOrigin, Readings] = field(default_factory=dict)
    endpoints: int = 0
    endpoints_failed: int = 0
    samples: int = 0
    unreadable: int = 0
    failed: SourceFailed | None = None
    scraped_ms: int = 0

    def period_ms(self, every_s: int) -> int:
        """Return how long a sample counts: until the next is read, or scraped by a Prometheus server."""
        return max(1000 * every_s, self.scraped_ms)

    @property
    def values(self) -> int:
        return sum(readings.used for readings in self.readings.values())

    @property
    def refused(self) -> int:
        return self.unreadable + sum(readings.refused for readings in self.readings.values())


@dataclass(frozen=True, slots=True)
class _Part:
    """The answer of one endpoint of a source; `scraped_ms` is the interval at which Prometheus scrapes."""

    samples: list[RawSample]
    unreadable: int = 0
    scraped_ms: int = 0


Value = TypeVar("Value")
Endpoint = tuple[str, str]
"""An address, and the network address that has to answer; "" for any."""


def read_sources(
    plans: Sequence[SourcePlan], *, now_ms: int, timeout_s: float = PASS_TIMEOUT_S
) -> dict[str, SourceResult]:
    """Read all sources concurrently; the failure of one does not affect the others.

    A source without an answer after `timeout_s` has failed.
    """
    results = {plan.key: SourceResult() for plan in plans}
    pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="telemetry-source")
    try:
        found = {plan.key: pool.submit(_endpoints, plan) for plan in plans}
        wait(found.values(), timeout=timeout_s / 3)
        parts: dict[str, list[Future[_Part]]] = defaultdict(list)
        for plan in plans:
            for endpoint in _settled(found[plan.key], results[plan.key]) or ():
                parts[plan.key].append(pool.submit(_read_endpoint, plan, endpoint, now_ms))
        wait([future for futures in parts.values() for future in futures], timeout=timeout_s * 2 / 3)
        for plan in plans:
            _finish(plan, results[plan.key], parts[plan.key])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return results


def _settled(future: Future[Value], result: SourceResult) -> Value | None:
    """Return the result of a thread; None, with the failure recorded, if it has none."""
    if not future.done():
        result.failed = result.failed or SourceFailed(SourceProblem.TIMEOUT)
        return None
    try:
        return future.result()
    except SourceFailed as failed:
        result.failed = result.failed or failed
    except Exception as error:
        log.exception("source_failed")
        result.failed = result.failed or SourceFailed(SourceProblem.INTERNAL, type(error).__name__)
    return None


def _endpoints(plan: SourcePlan) -> list[Endpoint]:
    """Return every endpoint of a source; all addresses of a name are read, except for Prometheus, whose
    addresses are replicas."""
    urls = fetch.expand_address(plan.address, plan.nodes)
    if not urls:
        raise SourceFailed(SourceProblem.NO_ADDRESS)
    if plan.kind == SourceKind.PROMETHEUS or len(urls) > 1:
        return [(url, "") for url in urls]
    return [(urls[0], via) for via in fetch.resolve_endpoints(urls[0])]


def _read_endpoint(plan: SourcePlan, endpoint: Endpoint, now_ms: int) -> _Part:
    url, via = endpoint
    if plan.kind == SourceKind.PROMETHEUS:
        window_s = max(WINDOW_S, 3 * plan.every_s)
        query = select_window(names_of(_SCRAPED), plan.matchers, window_s)
        data = fetch.query_prometheus(url, "query", {"query": query}, plan.access, timeout_s=plan.timeout_s)
        found = [sample for sample in newest_samples(data) if (sample.at_ms or 0) <= now_ms + _AHEAD_MS]
        return _Part(found, scraped_ms=min(scrape_interval_ms(data), 1000 * window_s))
    text = fetch.fetch_exposition(url, plan.access, via=via, timeout_s=plan.timeout_s)
    exposition = parse_exposition(text, names_of([MeasureOrigin(plan.kind)]))
    return _Part(exposition.samples, exposition.unreadable)


def _finish(plan: SourcePlan, result: SourceResult, futures: Sequence[Future[_Part]]) -> None:
    samples: list[RawSample] = []
    for future in futures:
        result.endpoints += 1
        part = _settled(future, result)
        if part is None:
            result.endpoints_failed += 1
            continue
        samples += part.samples
        result.unreadable += part.unreadable
        result.scraped_ms = max(result.scraped_ms, part.scraped_ms)
    result.samples = len(samples)
    if result.endpoints == result.endpoints_failed:
        return
    origins = _SCRAPED if plan.kind == SourceKind.PROMETHEUS else (MeasureOrigin(plan.kind),)
    for origin in origins:
        readings = read_samples(origin, samples)
        if readings.values or readings.xids or readings.instances:
            result.readings[origin] = readings
        elif readings.refused:
            result.unreadable += readings.refused
    if not samples and result.failed is None:
        result.failed = SourceFailed(SourceProblem.NO_KNOWN_METRIC)
