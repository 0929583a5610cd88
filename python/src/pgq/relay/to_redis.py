"""Redis: entries of a stream, messages of a channel, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pgq.relay.destination import Busy, Record

__all__ = ["Redis"]

# Atomic: sending the relay's last batch again changes nothing.
# KEYS: the stream, and the key that stores the last batch. ARGV: the batch, 1 if there is a stream,
# the channel, how many entries to keep, how many are too many; then id, topic and body per message.
_SEND = """
if redis.call('get', KEYS[2]) == ARGV[1] then return 0 end
local keep, limit = tonumber(ARGV[4]), tonumber(ARGV[5])
if limit > 0 and redis.call('xlen', KEYS[1]) >= limit then return -1 end
for i = 6, #ARGV, 3 do
    if ARGV[2] == '1' then
        if keep > 0 then
            redis.call('xadd', KEYS[1], 'maxlen', '~', keep, '*',
                       'id', ARGV[i], 'topic', ARGV[i + 1], 'message', ARGV[i + 2])
        else
            redis.call('xadd', KEYS[1], '*',
                       'id', ARGV[i], 'topic', ARGV[i + 1], 'message', ARGV[i + 2])
        end
    end
    if ARGV[3] ~= '' then redis.call('publish', ARGV[3], ARGV[i + 2]) end
end
redis.call('set', KEYS[2], ARGV[1])
return 1
"""


class Redis:
    """Adds each message to a stream (fields id, topic, message), sends it to a channel, or both.

    :param stream: the stream's key; None for a channel alone.
    :param channel: the channel; None for a stream alone.
    :param keep: about how many entries the stream keeps; 0 for all.
    :param limit: pause while the stream has this many entries; 0 for never.
    :param relay: the name of the relay; relays to one stream or channel need different names.
    """

    keeps_batches: ClassVar[bool] = True
    batch_size = 500
    linger = 0.0

    def __init__(
        self,
        url: str,
        *,
        stream: str | None,
        channel: str | None = None,
        keep: int = 0,
        limit: int = 0,
        relay: str = "relay",
        timeout: float = 30.0,
        label: str = "",
    ) -> None:
        if stream is None and channel is None:
            raise ValueError("Redis needs a stream, a channel, or both")
        if keep < 0 or limit < 0 or (stream is None and (keep or limit)):
            raise ValueError("keep and limit are numbers of entries of a stream")
        self.label = label or "redis"
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=timeout,
            socket_connect_timeout=min(timeout, 10.0),
            retry=Retry(NoBackoff(), 1),
        )
        self._send = self._client.register_script(_SEND)
        name = stream if stream is not None else channel
        # The braces are a hash tag: a cluster keeps both keys on one node.
        self._keys = [stream or f"{{{name}}}", f"pgq:{{{name}}}:{relay}"]
        self._settings: list[str | int] = [int(stream is not None), channel or "", keep, limit]
        self._stream = stream

    def send(self, batch: str, records: Sequence[Record]) -> Mapping[int, str]:
        """Add the records, unless this batch was the last one added."""
        arguments: list[str | int] = [batch, *self._settings]
        for record in records:
            arguments += (record.id, record.topic, record.document())
        if self._send(keys=self._keys, args=arguments) == -1:
            raise Busy(f"the stream {self._stream} is full")
        return {}

    def close(self) -> None:
        """Disconnect."""
        self._client.close()
