-- Keys belong to a queue: each queue has its own window, and its keys are dropped with it.
create table pgq.dedup (
    queue_id   int not null,
    topic      text not null,
    dedup_key  text not null,
    message_id bigint not null,
    until      timestamptz not null,
    due_at     timestamptz,
    constraint dedup_pkey primary key (queue_id, topic, dedup_key)
);
create index dedup_until_idx on pgq.dedup (until);
comment on table pgq.dedup is
    'Dedup keys that a queue has seen within its window, and the message that has the key.';
comment on column pgq.dedup.due_at is
    'When the message is due, in a queue that replaces or postpones. A later message uses it to '
    'find the row.';
revoke all on table pgq.dedup from public;
