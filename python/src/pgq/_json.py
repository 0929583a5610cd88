"""JSON between Python and the database, faster than psycopg has it and with the same settings."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import PyFormat
from psycopg.types.json import Jsonb, JsonbLoader

__all__ = ["FastJsonbLoader", "json_list"]

_decode = json.JSONDecoder().raw_decode


class FastJsonbLoader(JsonbLoader):
    """Reads what the server sends, whose encoding need not be guessed."""

    def load(self, data: Buffer) -> Any:
        """Return what the JSON says."""
        if self.loads is not json.loads:
            return super().load(data)  # somebody has called set_json_loads
        if data == b"{}":  # as most headers are
            return {}
        return _decode(str(data, "utf-8"))[0]


def json_list(values: list[Any], context: AdaptContext | None) -> str:
    """Return the values as one JSON array; psycopg would look at each one by itself."""
    adapters = psycopg.adapters if context is None else context.adapters
    dumper = adapters.get_dumper(Jsonb, PyFormat.TEXT)(Jsonb, context)
    if getattr(dumper, "dumps", None) is json.dumps:
        text: str = json.dumps(values)
        return text
    # Somebody has called set_json_dumps, for values of their own.
    texts = [str(dumper.dump(Jsonb(value)) or b"null", "utf-8") for value in values]
    return f"[{','.join(texts)}]"
