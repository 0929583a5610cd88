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
    'The keys the label was made from; a lane of other keys than its queue''s can hold anything.';
comment on column pgq.lane.label is
    'The values in order, [] for a missing or a hashed one; null: mixed values.';
comment on column pgq.lane.document is
    'The same as a message: what filters are tested on.';
comment on column pgq.lane.idle is
    'Null: in use. 0: found empty, no longer given to publishers. Else: to be removed when all '
    'transactions before this one have ended.';
revoke all on table pgq.lane from public;
