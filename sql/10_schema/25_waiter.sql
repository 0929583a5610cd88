create table pgq.waiter (
    queue_id int not null,
    waiter   text not null,
    until    timestamptz not null,
    horizon  xid8,
    armed    boolean not null default false,
    constraint waiter_pkey primary key (queue_id, waiter)
) with (fillfactor = 50);
comment on table pgq.waiter is 'Consumers that sleep, or are about to: publishing notifies them.';
comment on column pgq.waiter.until is 'The waiter is removed at this time unless it renews it.';
comment on column pgq.waiter.horizon is
    'Publishing transactions before this one may not have seen the waiter.';
comment on column pgq.waiter.armed is 'These have all ended: any new message notifies the waiter.';
revoke all on table pgq.waiter from public;
