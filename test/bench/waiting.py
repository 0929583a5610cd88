"""A consumer that waits for notifications while its queue is empty."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from bench.cluster import Session


class Consumer(threading.Thread):
    """Claims and acknowledges until it is stopped; calls `claimed` with the time of each claim."""

    def __init__(
        self,
        dsn: str,
        queue: str,
        n: int,
        claimed: Callable[[float], None],
        *,
        poll: float | None = None,
        pause: float = 0.0,
    ) -> None:
        """Wait for a notification, or for `poll` seconds; pause after each claim."""
        super().__init__(daemon=True)
        self._dsn, self._queue, self._n, self._claimed = dsn, queue, n, claimed
        self._poll, self._pause = poll, pause
        self._registered = False
        self._stopped = threading.Event()
        self.asleep = threading.Event()
        self.error: BaseException | None = None

    def __enter__(self) -> Consumer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join()
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        try:
            with Session(self._dsn) as session:
                channel: str = session.value("select pgq.channel(%s)", self._queue)
                session.execute(f"listen {channel}")
                while not self._stopped.is_set():
                    self._turn(session)
        except BaseException as error:
            self.error = error

    def _turn(self, session: Session) -> None:
        rows = session.execute(
            "select * from pgq.claim(%s, n => %s)", self._queue, self._n
        ).fetchall()
        if rows:
            moment = time.perf_counter()
            self.asleep.clear()
            self._claimed(moment)
            if self._registered:
                session.execute("select pgq.wait_end(%s, 'bench')", self._queue)
                self._registered = False
            session.execute("select pgq.ack(%s)", rows[0][0])
            time.sleep(self._pause)
        elif self._poll is not None:
            self._stopped.wait(self._poll)
        else:
            self._sleep(session)

    def _sleep(self, session: Session) -> None:
        span: timedelta = session.value("select pgq.wait_begin(%s, 'bench')", self._queue)
        self._registered = True
        if span > timedelta(0):
            if span > timedelta(seconds=1):
                self.asleep.set()
            for _ in session.conn.notifies(timeout=min(span.total_seconds(), 0.5), stop_after=1):
                pass
