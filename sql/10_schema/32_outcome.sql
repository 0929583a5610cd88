-- Counters of failures and other events remain when the audit log's era is truncated. Calls append
-- rows and maintain() adds them up: no row is contended. Acknowledgements are not counted here,
-- because each of them would have to write one more row.
create table pgq.outcome (
    queue_id int not null,
    event    text not null,
    reason   text,
    size     bigint not null
);
comment on table pgq.outcome is
    'Counters of all events of a queue except acks. The counters of a queue are the sum over its '
    'rows.';
comment on column pgq.outcome.event is 'As in pgq.journal, without ack.';
comment on column pgq.outcome.reason is 'Why the messages became dead letters; null: they did not.';
revoke all on table pgq.outcome from public;
