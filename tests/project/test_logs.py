"""Log lines carry the ids of their context, and never the values of local variables."""

from __future__ import annotations

import io
import json
import logging
import logging.config
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import structlog

from allotment.processes.logs import NoProbes, logging_config


@pytest.fixture
def logged(request: pytest.FixtureRequest) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """A logger rendered as all others are in the style of the parameter, and what it has written."""
    config = logging_config(request.param, "INFO")
    configurator = logging.config.DictConfigurator(config)
    logger, text = logging.getLogger(f"allotment.test.{request.param}"), io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(configurator.configure_formatter(config["formatters"]["structured"]))
    logger.addHandler(handler)
    logger.propagate = False
    yield logger, text
    logger.removeHandler(handler)


def _fail(password: str) -> None:
    raise ValueError(f"wrong for {len(password)}")


@pytest.mark.parametrize("logged", ["json"], indirect=True)
def test_json_lines_carry_the_request(logged: tuple[logging.Logger, io.StringIO]) -> None:
    logger, text = logged
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        logger.warning("slow %s", "page")
    line = json.loads(text.getvalue())
    assert (line["event"], line["level"], line["request_id"]) == ("slow page", "warning", "r-1")
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("logged", ["json", "console"], indirect=True)
def test_a_traceback_shows_no_local_variables(logged: tuple[logging.Logger, io.StringIO]) -> None:
    logger, text = logged
    secret = "-".join(["correct", "horse"])
    try:
        _fail(secret)
    except ValueError:
        logger.exception("failed")
    assert "ValueError: wrong for 13" in text.getvalue()
    assert secret not in text.getvalue()


def test_nothing_is_rendered_of_a_line_below_the_level() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("rendered")

    logging.getLogger("allotment.test.costly").setLevel(logging.WARNING)
    structlog.get_logger("allotment.test.costly").info("told to nobody: %s", Costly())


@pytest.mark.parametrize(
    ("path", "kept"), [("/readyz", False), ("/readyz/platform", False), ("/livez", False), ("/", True)]
)
def test_a_refused_probe_is_not_logged(path: str, kept: bool) -> None:
    record = logging.makeLogRecord({"request": SimpleNamespace(path=path)})
    assert NoProbes().filter(record) is kept


def test_a_probe_that_crashed_is_logged() -> None:
    error = ValueError("broken")
    record = logging.makeLogRecord(
        {"request": SimpleNamespace(path="/readyz"), "exc_info": (ValueError, error, None)}
    )
    assert NoProbes().filter(record)
