-- Publishing appends rows and maintain() adds them up: no row is contended.
create table pgq.binding_hit (
    binding_id int not null,
    matches    bigint not null,
    last_at    timestamptz not null,
    added_up   boolean not null default false
);
comment on table pgq.binding_hit is
    'How often subscriptions have matched. The count of a binding is the sum over its rows.';
comment on column pgq.binding_hit.added_up is
    'The row is a sum of earlier rows, which pgq.traffic has counted.';
revoke all on table pgq.binding_hit from public;
