create table pgq.waiter (
    queue_id int not null,
    waiter   text not null,
    until    timestamptz not null,
    horizon  xid8,
    armed    boolean not null default false,
    constraint waiter_pkey primary key (queue_id, waiter)
) with (fillfactor = 50);
comment on table pgq.waiter is
    'Listeners: consumers that sleep or are about to sleep. Publishing notifies them.';
comment on column pgq.waiter.until is
    'The listener is removed at this time, unless it renews its registration.';
comment on column pgq.waiter.horizon is
    'Publishing transactions before this one may not have seen the listener.';
comment on column pgq.waiter.armed is
    'All these transactions have ended, so every new message notifies the listener.';
revoke all on table pgq.waiter from public;
