-- Of an ordering group only the head is ready, scheduled or leased; the others wait in line. So
-- blocked messages cost nothing: no claim ever looks at them.
create table pgq.group_head (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null,
    constraint group_head_pkey primary key (queue_id, group_key)
) with (fillfactor = 80);
comment on table pgq.group_head is 'The message of each ordering group whose turn it is.';
revoke all on table pgq.group_head from public;

create table pgq.group_line (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null,
    failures   jsonb,
    due_at     timestamptz,
    constraint group_line_pkey primary key (queue_id, group_key, message_id)
);
comment on table pgq.group_line is 'The messages of ordering groups that wait for their turn.';
comment on column pgq.group_line.due_at is
    'When the message is to be delivered at the earliest; null: as it was published.';
revoke all on table pgq.group_line from public;

create table pgq.group_stall (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null
);
create index group_stall_queue_idx on pgq.group_stall (queue_id);
comment on table pgq.group_stall is
    'Groups whose head is done while a publisher held the group: later claims move them on.';
revoke all on table pgq.group_stall from public;
