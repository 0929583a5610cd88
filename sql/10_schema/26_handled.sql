create table pgq.handled (
    handled_id bigint generated always as identity,
    handler    text not null,
    message_id bigint not null,
    handled_at timestamptz not null,
    constraint handled_pkey primary key (handler, message_id)
);
create index handled_order_idx on pgq.handled (handler, handled_id);
create index handled_at_idx on pgq.handled (handled_at);
comment on table pgq.handled is
    'Which messages a handler has seen: the newest, a ring per handler.';
revoke all on table pgq.handled from public;
