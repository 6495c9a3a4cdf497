"""One structured line per event, as text (`console`) or JSON (`json`).

Django, Celery and the libraries log through the standard library; structlog renders all records, so that
the request, cycle and job ids bound to the context appear on every line of every logger.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

# Two traceback printers that structlog would load for its console output, an eighth of the start time of
# every process: lines are plain here. None in `sys.modules` marks them as not installed.
_UNUSED: Final = [name for name in ("rich", "better_exceptions") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]
import structlog  # noqa: E402
from structlog.typing import Processor  # noqa: E402

for _name in _UNUSED:
    del sys.modules[_name]


class NoProbes(logging.Filter):
    """Drops Django's record of a refused probe: it comes every second, and the response gives the reason."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is logged."""
        path = getattr(getattr(record, "request", None), "path", "")
        return path not in {"/readyz", "/readyz/platform", "/livez"} or record.exc_info is not None


def _shared_processors() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]


def configure_structlog() -> None:
    """Route structlog's own loggers through the standard library, where `logging_config` renders them."""
    structlog.configure(
        # Records below the level are dropped first: the other processors cost ten times as much.
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared_processors(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def logging_config(style: str, level: str) -> dict[str, Any]:
    """The `LOGGING` setting: `style` is `console` or `json`, `level` a name such as `INFO`."""
    rendering: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if style == "json":
        rendering += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        # Plain: the pretty tracebacks print local variables, and some of those are secrets.
        plain = structlog.dev.plain_traceback
        rendering += [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=plain)]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": rendering,
                "foreign_pre_chain": _shared_processors(),
            }
        },
        "filters": {"no_probes": {"()": "allotment.processes.logs.NoProbes"}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "structured",
                "filters": ["no_probes"],
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Without these, Django and uvicorn add their own handlers and every line appears twice.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "uvicorn": {"handlers": [], "propagate": True},
            "uvicorn.access": {"handlers": [], "level": "WARNING", "propagate": True},
            "uvicorn.error": {"handlers": [], "propagate": True},
            "celery.worker.strategy": {"level": "WARNING"},  # "task received" for every hint
            "celery.app.trace": {"level": "WARNING"},  # "task succeeded"; failures are logged as errors
            "celery.beat": {"level": "WARNING"},
            "axes": {"level": "WARNING"},
        },
    }
