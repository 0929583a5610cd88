"""Publishing in a prepared transaction: delivered, or PostgreSQL rejects the PREPARE."""

from __future__ import annotations

import psycopg
import pytest

from harness.server import embedded_server


def test_a_prepared_publish_is_delivered_or_refused() -> None:
    with (
        embedded_server(max_prepared_transactions=2) as server,
        psycopg.connect(server.dsn(), autocommit=True) as conn,
    ):
        conn.execute("create extension pgq")
        conn.execute("select pgq.create_queue('q')")
        conn.execute("begin")
        conn.execute("select pgq.publish('q', '1')")
        conn.execute("prepare transaction 'one'")
        assert conn.execute("select from pgq.claim('q')").fetchall() == []
        conn.execute("commit prepared 'one'")
        assert conn.execute("select payload from pgq.claim('q')").fetchall() == [(1,)]
        # A consumer that sleeps has to be notified, and NOTIFY cannot be prepared.
        conn.execute("select pgq.wait_begin('q', 'me')")
        conn.execute("begin")
        conn.execute("select pgq.publish('q', '2')")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
            conn.execute("prepare transaction 'two'")
        conn.execute("rollback")
        assert conn.execute("select from pgq.claim('q')").fetchall() == []
        assert conn.execute("select count(*) from pgq.message").fetchone() == (1,)
        # An old snapshot may not show the listeners, so publishing always notifies.
        conn.execute("select pgq.wait_end('q', 'me')")
        conn.execute("begin isolation level repeatable read")
        conn.execute("select pgq.publish('q', '3')")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
            conn.execute("prepare transaction 'three'")
        conn.execute("rollback")
        assert conn.execute("select count(*) from pgq.message").fetchone() == (1,)
        # A consumer that polls is no listener.
        conn.execute("begin")
        conn.execute("select pgq.publish('q', '4')")
        conn.execute("prepare transaction 'four'")
        conn.execute("commit prepared 'four'")
        assert conn.execute("select payload from pgq.claim('q')").fetchall() == [(4,)]
