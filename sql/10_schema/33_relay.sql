create table pgq.relay (
    queue_id    int not null,
    relay       text not null,
    destination text not null,
    circuit     text not null,
    error       text,
    changed_at  timestamptz not null,
    constraint relay_pkey primary key (queue_id, relay),
    constraint relay_circuit_known check (circuit in ('closed', 'open', 'half-open'))
) with (fillfactor = 50);
comment on table pgq.relay is
    'What relays say of their destinations; the stream of the same name says whether they live.';
comment on column pgq.relay.circuit is
    'closed: messages flow; open: the destination is left alone for a while; half-open: it is '
    'being tried.';
comment on column pgq.relay.error is 'Why the last sending failed; null: it did not.';
comment on column pgq.relay.changed_at is 'Since when the circuit is what it is.';
revoke all on table pgq.relay from public;
