create table pgq.waiter (
    queue_id int not null,
    waiter   text not null,
    until    timestamptz not null,
    horizon  xid8,
    armed    boolean not null default false,
    constraint waiter_pkey primary key (queue_id, waiter)
) with (fillfactor = 50);
comment on table pgq.waiter is 'Consumers that sleep, or are about to: publishing wakes them.';
comment on column pgq.waiter.until is 'A waiter that is not heard of until then is forgotten.';
comment on column pgq.waiter.horizon is
    'Publishers before this transaction may not have seen the waiter.';
comment on column pgq.waiter.armed is 'They have all ended: no message can come unannounced.';
revoke all on table pgq.waiter from public;
