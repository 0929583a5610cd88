-- One page for a newcomer.
--
-- A message is an immutable row of pgq.message. A queue receives every message that one of its
-- bindings (topic pattern, filter) accepts. The state of messages is not a status column on a
-- million rows: a queue has a handful of rows that each hold a SET OF MESSAGE IDS.
-- Publishing adds a set to pgq.ready, claiming moves ids from ready to pgq.lease, acknowledging
-- subtracts them from the lease, failing moves them to pgq.scheduled or to pgq.letter.
--
-- Where to read on:
--   * publishing: pgq.publish and pgq.publish_batch; pgq._route, the trigger of INSERT and COPY
--   * claiming: pgq.claim, with the fast paths _take_row, _take_singles and _take_part; pgq._claim
--   * ending a lease: pgq.ack, pgq.nack, pgq.bury, pgq.release; pgq._retry and pgq._bury_set
--   * upkeep by claims: pgq._upkeep takes back expired leases and makes due messages ready
--   * maintenance: pgq.maintain; pgq._rotate for the eras of the log
--   * filters: pgq._filter_parse and pgq._filter_path compile a document to a jsonpath
-- extension/design.md explains the ideas and what they cost.
--
-- Invariants that the code relies on:
--   * An id of a queue is in at most one of ready, scheduled, lease, letter.
--   * Every id inside a set is a message that exists in the log.
--   * A ready row is never updated: it is deleted, and the rest of it becomes a new row. After
--     FOR UPDATE SKIP LOCKED an updated row could be newer than the statement's snapshot, and a
--     DELETE by ctid would silently miss it; a deleted row simply vanishes.
--   * Lock order: ready or scheduled rows, then lease rows, then everything else; rows of another
--     transaction are skipped, never waited for, except by ack, nack, bury and extend, which name
--     the one lease they want.
create schema pgq;
comment on schema pgq is 'pgq: a message queue made of id sets';
revoke all on schema pgq from public;
