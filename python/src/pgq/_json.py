"""JSON between Python and the database, faster than psycopg has it and with the same settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import PyFormat
from psycopg.types.json import Jsonb, JsonbLoader

__all__ = ["FastJsonbLoader", "jsonb_array"]

_decode = json.JSONDecoder().raw_decode


class FastJsonbLoader(JsonbLoader):
    """Reads what the server sends, whose encoding need not be guessed."""

    def load(self, data: Buffer) -> Any:
        """Return what the JSON says."""
        if self.loads is json.loads:
            return _decode(str(data, "utf-8"))[0]
        return super().load(data)  # somebody has called set_json_loads


def jsonb_array(values: Iterable[Any], context: AdaptContext | None) -> str:
    """Return the values as the text of a ``jsonb[]``; psycopg would look at each one by itself."""
    adapters = psycopg.adapters if context is None else context.adapters
    dump = adapters.get_dumper(Jsonb, PyFormat.TEXT)(Jsonb, context).dump
    texts = [str(dump(Jsonb(value)) or b"null", "utf-8") for value in values]
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    return '{"' + '","'.join(quoted) + '"}' if quoted else "{}"
