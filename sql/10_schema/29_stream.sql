create table pgq.stream (
    queue_id int not null,
    consumer text not null,
    batch    bigint not null,
    owner    text,
    until    timestamptz not null,
    constraint stream_pkey primary key (queue_id, consumer)
) with (fillfactor = 50);
comment on table pgq.stream is
    'Consumers that work in numbered batches, each a named claim: what the checkpoint of a stream '
    'refers to.';
comment on column pgq.stream.batch is 'The last batch that is finished; its messages are done.';
comment on column pgq.stream.owner is 'The process that has the name now; null: none.';
comment on column pgq.stream.until is
    'An owner that is not heard of until then has lost the name.';
revoke all on table pgq.stream from public;
