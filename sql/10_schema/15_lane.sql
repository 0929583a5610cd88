-- Lanes are labels: two rows with the same label (made by two publishers at once) do no harm,
-- and without a unique constraint no publisher ever waits for another.
create table pgq.lane (
    lane_id   int generated always as identity,
    queue_id  int not null,
    lane_keys text[] not null,
    label     jsonb,
    document  jsonb,
    idle      xid8,
    constraint lane_pkey primary key (lane_id)
);
create index lane_label_idx on pgq.lane (queue_id, label);
create index lane_queue_idx on pgq.lane (queue_id, lane_id);
comment on table pgq.lane is
    'The lane dictionary: which values the ready rows of a lane share.';
comment on column pgq.lane.lane_keys is
    'The keys of the label. If the queue has other keys now, the lane can hold any message.';
comment on column pgq.lane.label is
    'The values in order, [] for a missing or a hashed one; null: the overflow lane.';
comment on column pgq.lane.document is
    'The label as a message, for testing filters.';
comment on column pgq.lane.idle is
    'Null: in use. 0: found empty, no longer given to publishers. Else: to be removed when all '
    'transactions before this one have ended.';
revoke all on table pgq.lane from public;
