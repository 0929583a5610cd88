create table pgq.filter (
    filter_id  bigint generated always as identity,
    hash       bigint not null,
    document   jsonb not null,
    lane_keys  text[],
    scope      text not null,
    path       jsonpath not null,
    lane_path  jsonpath,
    lane_final boolean not null,
    created_at timestamptz not null default now(),
    constraint filter_pkey primary key (filter_id)
);
create index filter_hash_idx on pgq.filter (hash);
comment on table pgq.filter is 'Compiled filters, found by the hash of their document.';
comment on column pgq.filter.lane_keys is 'The lane keys that lane_path was weakened to.';
comment on column pgq.filter.lane_path is 'The filter weakened to the lane keys.';
comment on column pgq.filter.lane_final is 'The lane keys alone decide: no message needs testing.';
revoke all on table pgq.filter from public;

-- Updated only by a claim that tested many messages, and then by one claim at a time.
create table pgq.filter_scan (
    filter_id bigint not null,
    queue_id  int not null,
    snapshot  pg_snapshot not null,
    rank      bigint not null,
    constraint filter_scan_pkey primary key (filter_id, queue_id)
) with (fillfactor = 50);
comment on table pgq.filter_scan is
    'How far a filter has looked in a queue: no ready row that the snapshot could see and that '
    'stands before the rank holds a match.';
revoke all on table pgq.filter_scan from public;

-- Claims append, maintain() adds up: no row is ever hot.
create table pgq.filter_hit (
    filter_id bigint not null,
    queue_id  int not null,
    claims    bigint not null,
    tested    bigint not null,
    matched   bigint not null,
    used_at   timestamptz not null,
    last_at   timestamptz
);
comment on table pgq.filter_hit is 'How filters fare; the rows of a filter add up.';
comment on column pgq.filter_hit.filter_id is '0: filters that are forgotten.';
comment on column pgq.filter_hit.last_at is 'The last claim that found a match.';
revoke all on table pgq.filter_hit from public;
