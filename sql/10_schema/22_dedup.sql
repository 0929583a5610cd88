create table pgq.dedup (
    topic      text not null,
    dedup_key  text not null,
    message_id bigint not null,
    until      timestamptz not null,
    constraint dedup_pkey primary key (topic, dedup_key)
);
create index dedup_until_idx on pgq.dedup (until);
comment on table pgq.dedup is 'Dedup keys seen within their window, and the message that won.';
revoke all on table pgq.dedup from public;
