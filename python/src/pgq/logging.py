"""A JSON formatter for the log records of pgq, which go to the logger ``pgq``.

Every record has an ``event``, a name that does not change, and fields such as ``queue``,
``message_id``, ``attempt``, ``lease_id``, and ``duration`` in seconds. pgq never logs the content
of a message.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from pgq._shared import trace

__all__ = ["JsonFormatter"]

_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One line of JSON for each record: time, level, logger, message, the fields, the traceback.

    With OpenTelemetry, a record that is logged within a span also has ``trace_id`` and ``span_id``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **trace.current(),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                line.setdefault(name, value)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, default=str, ensure_ascii=False)
