-- Lanes are labels. Two rows with the same label (made by two publishers at once) are harmless.
-- There is no unique constraint, so no publisher waits for another.
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
    'The lane dictionary: the values that the messages of a lane share.';
comment on column pgq.lane.lane_keys is
    'The keys of the label. If the queue has other keys now, the lane can contain any message.';
comment on column pgq.lane.label is
    'The values in order, [] for a missing or hashed value; null: the overflow lane.';
comment on column pgq.lane.document is
    'The label in the form of a message, to test filters on it.';
comment on column pgq.lane.idle is
    'Null: in use. 0: it was empty, and publishers no longer use it. Otherwise: it can be removed '
    'when all transactions before this one have ended.';
revoke all on table pgq.lane from public;
