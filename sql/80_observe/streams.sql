-- The streams of the queues that the current user may consume, and the lineage of recent batches.
create or replace view pgq.streams with (security_barrier) as
select q.name as queue, s.consumer, s.batch as finished,
       s.owner is not null and s.until > pgq.now() as alive, s.owner, s.query,
       l.batch, l.reader, l.size, l.read_at, l.committed_at, l.wrote
from pgq.stream s
join pgq._visible_queue q on q.queue_id = s.queue_id
left join pgq.lineage l on l.queue_id = s.queue_id and l.consumer = s.consumer;
comment on view pgq.streams is
    'The streams, with the last finished batch and the owner of each. For recent batches also the '
    'reader, and what was committed with them.';
comment on column pgq.streams.finished is 'The last batch that is finished.';
comment on column pgq.streams.alive is
    'False: the owner has not renewed the stream in time, or has ended.';
comment on column pgq.streams.batch is 'A batch that was read, finished or not; null: none.';
comment on column pgq.streams.reader is
    'The execution that read the batch; for Spark: query, run and batch.';
comment on column pgq.streams.wrote is
    'How many rows went to each table, and how many messages to queues.';
revoke all on table pgq.streams from public;
