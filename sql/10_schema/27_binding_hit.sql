-- Publishing appends, maintain() adds up: no row is ever hot.
create table pgq.binding_hit (
    binding_id int not null,
    matches    bigint not null,
    last_at    timestamptz not null
);
comment on table pgq.binding_hit is 'How often subscriptions match; the rows of a binding add up.';
revoke all on table pgq.binding_hit from public;
