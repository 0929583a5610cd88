"""JSON between Python and the database: faster than psycopg, and with psycopg's settings."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from psycopg.abc import AdaptContext, Buffer, Dumper
from psycopg.adapt import PyFormat
from psycopg.types.json import Jsonb, JsonbLoader

from pgq.encoding import dumps

__all__ = ["FastJsonbLoader", "json_list", "jsonb"]

_decode = json.JSONDecoder().raw_decode


class FastJsonbLoader(JsonbLoader):
    """Decodes jsonb without guessing the encoding, which is UTF-8."""

    def load(self, data: Buffer) -> Any:
        """Return the decoded value."""
        if self.loads is not json.loads:
            return super().load(data)  # set_json_loads was called
        if data == b"{}":  # most headers are empty
            return {}
        return _decode(str(data, "utf-8"))[0]


def jsonb(value: Any, context: AdaptContext | None) -> Jsonb:
    """Return a value to be sent as JSON, by the encoder of `pgq.encoding`."""
    if getattr(_dumper(context), "dumps", None) is json.dumps:
        return Jsonb(value, dumps)
    return Jsonb(value)  # set_json_dumps was called


def json_list(values: list[Any], context: AdaptContext | None) -> str:
    """Return the values as one JSON array; psycopg would encode each value separately."""
    dumper = _dumper(context)
    if getattr(dumper, "dumps", None) is json.dumps:
        return dumps(values)
    # set_json_dumps was called: encode each value with the caller's function.
    texts = [str(dumper.dump(Jsonb(value)) or b"null", "utf-8") for value in values]
    return f"[{','.join(texts)}]"


def _dumper(context: AdaptContext | None) -> Dumper:
    adapters = psycopg.adapters if context is None else context.adapters
    return adapters.get_dumper(Jsonb, PyFormat.TEXT)(Jsonb, context)
