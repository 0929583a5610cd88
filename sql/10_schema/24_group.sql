-- Only the head of an ordering group is ready, scheduled or leased. The others wait in the group
-- backlog, which claims do not read.
create table pgq.group_head (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null,
    constraint group_head_pkey primary key (queue_id, group_key)
) with (fillfactor = 80);
comment on table pgq.group_head is 'The head of each ordering group: its next message.';
revoke all on table pgq.group_head from public;

create table pgq.group_line (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null,
    failures   jsonb,
    due_at     timestamptz,
    constraint group_line_pkey primary key (queue_id, group_key, message_id)
);
comment on table pgq.group_line is
    'The group backlog: messages of ordering groups that wait for their turn.';
comment on column pgq.group_line.due_at is
    'The earliest delivery time of the message; null: as published.';
revoke all on table pgq.group_line from public;

create table pgq.group_stall (
    queue_id   int not null,
    group_key  text not null,
    message_id bigint not null
);
create index group_stall_queue_idx on pgq.group_stall (queue_id);
comment on table pgq.group_stall is
    'Deferred advances: the head ended while a publisher held the group. Later claims advance it.';
revoke all on table pgq.group_stall from public;
