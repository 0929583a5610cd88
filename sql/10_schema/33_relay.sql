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
    'What relays report of their destinations. The stream of the same name shows whether the '
    'relay is alive.';
comment on column pgq.relay.circuit is
    'closed: messages are sent. open: the relay sends nothing for a while. half-open: the relay '
    'tries the destination.';
comment on column pgq.relay.error is 'Why the last send failed; null: it did not.';
comment on column pgq.relay.changed_at is 'When the circuit changed to this state.';
revoke all on table pgq.relay from public;
