-- What goes wrong is counted for good, also when the journal's era is emptied. Whoever counts
-- appends, maintain() adds up: no row is ever hot. Acknowledgements are not in here: they would
-- cost every one of them a row more.
create table pgq.outcome (
    queue_id int not null,
    event    text not null,
    reason   text,
    size     bigint not null
);
comment on table pgq.outcome is
    'How often messages of a queue were not simply done; the rows of a queue add up.';
comment on column pgq.outcome.event is 'As in pgq.journal, without ack.';
comment on column pgq.outcome.reason is 'Why they became dead letters; null: they did not.';
revoke all on table pgq.outcome from public;
