create table pgq.stream (
    queue_id  int not null,
    consumer  text not null,
    batch     bigint not null,
    owner     text,
    until     timestamptz not null,
    stream_id uuid not null default gen_random_uuid(),
    query     text,
    committed bigint,
    constraint stream_pkey primary key (queue_id, consumer)
) with (fillfactor = 50);
comment on table pgq.stream is
    'Consumers that work in numbered batches, each a named claim. The checkpoint of a stream '
    'refers to these numbers.';
comment on column pgq.stream.batch is 'The last batch that is finished; its messages are done.';
comment on column pgq.stream.owner is 'The process that owns the name now; null: none.';
comment on column pgq.stream.until is
    'The owner loses the name at this time unless it renews it.';
comment on column pgq.stream.stream_id is
    'Distinguishes this consumer from consumers of the same name in another database, or of an '
    'earlier time.';
comment on column pgq.stream.query is
    'The query whose checkpoint numbers the batches. pgq.stream_bind rejects another query.';
comment on column pgq.stream.committed is
    'The last batch that pgq.commit_batch has finished, in one transaction with its results.';
revoke all on table pgq.stream from public;

create table pgq.lineage (
    reader       text not null,
    queue_id     int not null,
    consumer     text not null,
    batch        bigint not null,
    size         bigint not null,
    read_at      timestamptz not null,
    committed_at timestamptz,
    wrote        jsonb,
    constraint lineage_pkey primary key (reader, queue_id, consumer)
);
create index lineage_batch_idx on pgq.lineage (queue_id, consumer, batch);
comment on table pgq.lineage is
    'The readers of recent batches of each stream, and what was committed with them.';
comment on column pgq.lineage.reader is
    'The execution of an engine that reads the batch, such as query, run and batch of Spark.';
comment on column pgq.lineage.size is 'The number of messages in the batch when it was read.';
comment on column pgq.lineage.committed_at is
    'When pgq.commit_batch finished the batch; null: another call did, or none.';
comment on column pgq.lineage.wrote is 'How many rows went to each table, as the writer reports.';
revoke all on table pgq.lineage from public;
