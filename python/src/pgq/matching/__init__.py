"""A second implementation of the filter language, without SQL.

It serves messages that are not in a database: an archive, a stream. It was written from the
description of the language (extension/filter.md), and shares nothing with the compiler of the
extension. The tests compare both implementations on random documents and messages, so that a
mistake would have to be made twice.

Numbers may be int or Decimal. A message field that is None counts as missing.
"""

from __future__ import annotations

from pgq.matching.parser import compile_filter, loads, matches
from pgq.matching.text import topic_matches, topic_words
from pgq.matching.world import Message, Test, World

__all__ = [
    "Message",
    "Test",
    "World",
    "compile_filter",
    "loads",
    "matches",
    "topic_matches",
    "topic_words",
]
