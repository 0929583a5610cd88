-- Publishing and acknowledging write nothing here: maintain() counts rows of the log, the audit log
-- and binding_hit.
create table pgq.traffic (
    queue_id int not null,
    minute   timestamptz not null,
    event    text not null,
    size     bigint not null,
    constraint traffic_pkey primary key (queue_id, minute, event)
) with (fillfactor = 80);
comment on table pgq.traffic is
    'How many messages were received, done and failed in each minute of the last hours.';
comment on column pgq.traffic.event is
    'in: received; ack and the other events of pgq.journal; ready, dead: how many there were at '
    'the last count in that minute.';
revoke all on table pgq.traffic from public;
