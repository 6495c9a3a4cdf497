"""The free GPUs of a pool by the size of their block, and what would free larger blocks, as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from frontend.pages.submission.preview_words import list_preempted, name_jobs
from frontend.texts import formats, reasons
from scheduling.services.jobs.startable import StartableJob, StartablePool, list_larger_blocks
from scheduling.services.start_prediction.free_blocks import FreeOnNode, find_ending_block, list_free_nodes
from tenants.models import User

_MOST_NODES = 5


@dataclass(frozen=True, slots=True)
class BlockSize:
    """The nodes with so many free GPUs. `share` is their part of all free GPUs of the pool, in percent."""

    size: str
    nodes: str
    names: str
    gpus: str
    share: float
    words: str


@dataclass(frozen=True, slots=True)
class LargerBlock:
    """A number of GPUs that no single node has free although the pool has, and what would free them."""

    title: str
    ways: Sequence[SafeString | str]


@dataclass(frozen=True, slots=True)
class PoolFragments:
    """The free GPUs of one model."""

    title: str
    sizes: Sequence[BlockSize]
    blocks: Sequence[LargerBlock]


def describe_fragments(viewer: User, pool: StartablePool, now: datetime) -> PoolFragments | None:
    """Describe the free GPUs of a model by node; None where none is free."""
    nodes = list_free_nodes(pool.pools)
    if not nodes:
        return None
    free = sum(one.gpus for one in nodes)
    title = _("Free GPUs by node: %(model)s, %(gpus)s") % {"model": pool.model, "gpus": _gpus(free)}
    blocks = [_describe_block(viewer, pool, found, nodes, now) for found in list_larger_blocks(pool)]
    return PoolFragments(title, list(_sizes(nodes, free)), blocks)


def _sizes(nodes: Sequence[FreeOnNode], free: int) -> Iterator[BlockSize]:
    by_size: defaultdict[int, list[str]] = defaultdict(list)
    for one in nodes:
        by_size[one.gpus].append(one.node)
    for size, names in sorted(by_size.items(), reverse=True):
        count = ngettext("%(n)s node", "%(n)s nodes", len(names)) % {"n": formats.format_number(len(names))}
        listed = names[:_MOST_NODES]
        if len(names) > _MOST_NODES:
            listed.append(_("%(n)s more") % {"n": formats.format_number(len(names) - _MOST_NODES)})
        together = _gpus(size * len(names))
        yield BlockSize(
            size=_gpus(size),
            nodes=count,
            names=_(", ").join(listed),
            gpus=together,
            share=round(100 * size * len(names) / free, 2),
            words=_("%(size)s free on each of %(nodes)s: %(gpus)s")
            % {"size": _gpus(size), "nodes": count, "gpus": together},
        )


def _describe_block(
    viewer: User, pool: StartablePool, found: StartableJob, nodes: Sequence[FreeOnNode], now: datetime
) -> LargerBlock:
    title = _("%(gpus)s on one node: not free; %(free)s are free, at most %(most)s on one node.") % {
        "gpus": _gpus(found.shape.gpus),
        "free": _gpus(sum(one.gpus for one in nodes)),
        "most": _gpus(nodes[0].gpus),
    }
    ways = [*_describe_start(viewer, found), *_describe_end(viewer, pool, found.shape.gpus, now)]
    return LargerBlock(title, ways)


def _describe_start(viewer: User, found: StartableJob) -> Iterator[str]:
    """Yield what the scheduler would do for a job of one such task."""
    seen = found.refused
    if seen is None:
        return
    if not seen.preempted:
        yield _("The scheduler moves no jobs for it now: %(reason)s.") % {
            "reason": reasons.reason_title(seen.reason)
        }
        return
    lines = _(", ").join(list_preempted(viewer, seen.preempted))
    yield _("A submitted job would start when jobs have been moved or preempted. %(jobs)s") % {"jobs": lines}


def _describe_end(viewer: User, pool: StartablePool, gpus: int, now: datetime) -> Iterator[SafeString | str]:
    block = find_ending_block(viewer=viewer, pools=pool.pools, gpus=gpus, now=now)
    if block is None:
        yield _("Expected ends of jobs are unknown: too few earlier runs.")
        return
    sentence = escape(
        _(
            "Expected free on %(node)s about %(at)s, by %(late)s in 9 of 10 cases, when these jobs have "
            "ended: %(jobs)s. Pending jobs can take the GPUs first."
        )
    )
    numbers = {
        "node": escape(block.node),
        "at": formats.clock_html(block.expected_at),
        "late": formats.clock_html(block.late_at),
        "jobs": escape(_(", ").join(name_jobs(block.jobs))),
    }
    yield mark_safe(sentence % numbers)  # noqa: S308 (all parts are escaped)


def _gpus(count: int) -> str:
    return ngettext("%(n)s GPU", "%(n)s GPUs", count) % {"n": formats.format_number(count)}
