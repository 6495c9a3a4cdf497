"""The table: the pages of queues, on the operators' side and in a workspace."""

from __future__ import annotations

from typing import Final

from tests.access.actors import VIEW
from tests.access.rows_pages import JOB, QUOTA, form, listing, page
from tests.access.table import EVERYBODY, SIGHT, Ask, inside, must, need, see

_EDITS: Final = "quota.edit"
_QUEUE: Final = "queue.edit"
_OWN_QUEUES: Final = "w/{workspace}/queues"
_READ_QUEUE: Final = inside(QUOTA)
_OPENS: Final = see(*((VIEW, place) for place in ("here", "beside", "other"))) + must(
    *((_QUEUE, place) for place in ("here", "beside", "other"))
)


def _queue_rows(queues: str) -> tuple[Ask, ...]:
    """The rows of the pages of one queue below the address `queues`."""
    queue = f"{queues}/{{queue}}"
    return (
        page(
            queue,
            _READ_QUEUE,
            shows=(('value="rename"', must((_QUEUE, "here"))), ('id="queue-pending"', must((JOB, "here")))),
        ),
        page(
            f"{queue}/live",
            _READ_QUEUE,
            shows=tuple((f'id="queue-{part}"', must((JOB, "here"))) for part in ("pending", "admitted")),
        ),
        page(f"{queue}/charts/{{kind}}", _READ_QUEUE + need(JOB), values={"kind": "waits"}),
        form(
            queue,
            _READ_QUEUE + need(_QUEUE),
            "quotas_queue",
            body={"do": "rename", "name": "other", "version": "{queue.version}"},
        ),
        form(
            f"{queues}/{{spare_queue}}",
            _READ_QUEUE + need(_QUEUE),
            "quotas_queue",
            body={"do": "delete", "version": "{spare_queue.version}"},
        ),
        form(
            f"{queue}/check",
            _READ_QUEUE + need(_QUEUE),
            "",
            "check",
            ok=200,
            body={"preset": "deterministic"},
        ),
        form(
            queue,
            _READ_QUEUE + need(_QUEUE),
            "quotas_queue",
            "preset",
            body={"preset": "deterministic", "version": "{queue.version}"},
        ),
    )


ROWS: Final = (
    *listing(
        "ops/queues",
        EVERYBODY,
        lists="queue",
        listed=SIGHT + need(QUOTA),
        shows=(("edit=new", _OPENS),),
    ),
    form(
        "ops/queues",
        SIGHT + must((_QUEUE, "here")) + must((_EDITS, "here")),
        "quotas_queue",
        "open",
        body={"workspace": "{ws}", "name": "second", "flavors": "a100", "preset": "balanced"},
    ),
    *_queue_rows("ops/queues/{workspace}"),
    *listing(
        _OWN_QUEUES,
        _READ_QUEUE,
        lists="queue",
        listed=need(QUOTA),
        shows=(("edit=new", must((_QUEUE, "here"))),),
    ),
    form(
        _OWN_QUEUES,
        _READ_QUEUE + need(_QUEUE) + must((_EDITS, "here")),
        "quotas_queue",
        "open",
        body={"workspace": "{ws}", "name": "second", "flavors": "a100", "preset": "balanced"},
    ),
    *_queue_rows(_OWN_QUEUES),
)
