create table pgq.handled (
    handled_id bigint generated always as identity,
    role       text not null,
    handler    text not null,
    message_id bigint not null,
    handled_at timestamptz not null,
    constraint handled_pkey primary key (role, handler, message_id)
);
create index handled_order_idx on pgq.handled (role, handler, handled_id);
create index handled_at_idx on pgq.handled (handled_at);
comment on table pgq.handled is
    'The newest messages that each handler has seen.';
comment on column pgq.handled.role is
    'The role of the handler, which called pgq.seen; empty: the owner.';
revoke all on table pgq.handled from public;
