create table pgq.result_waiter (
    message_id bigint not null,
    waiter     text not null,
    until      timestamptz not null,
    constraint result_waiter_pkey primary key (message_id, waiter)
) with (fillfactor = 50);
comment on table pgq.result_waiter is
    'Sessions that wait for the end of a message: finishing, burying or cancelling notifies them.';
revoke all on table pgq.result_waiter from public;
