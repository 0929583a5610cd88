create table pgq.filter (
    filter_id  bigint generated always as identity,
    queue_id   int not null,
    hash       bigint not null,
    document   jsonb not null,
    lane_keys  text[],
    scope      text not null,
    path       jsonpath not null,
    equal      jsonb,
    lane_path  jsonpath,
    lane_final boolean not null,
    lane_hashes int[],
    created_at timestamptz not null default now(),
    constraint filter_pkey primary key (filter_id)
);
create index filter_hash_idx on pgq.filter (hash);
create index filter_queue_idx on pgq.filter (queue_id);
comment on table pgq.filter is 'Compiled filters, found by the hash of their document.';
comment on column pgq.filter.queue_id is
    'The first queue that used the filter; the filter counts toward the limit of this queue. '
    'Other queues may use it, too.';
comment on column pgq.filter.equal is
    'The headers of a filter that only tests headers for equality: claims then test headers @> '
    'equal. Null for other filters.';
comment on column pgq.filter.lane_keys is 'The lane keys that the filter was projected to.';
comment on column pgq.filter.lane_path is
    'The filter projected to the lane keys that are not hashed.';
comment on column pgq.filter.lane_final is
    'The lane keys alone decide, so no message needs testing.';
comment on column pgq.filter.lane_hashes is
    'Hashes that the hashed lane key of a match can have; null: any.';
revoke all on table pgq.filter from public;

-- Two claims may store the first cursor at once: both rows are right, and no claim waits.
create table pgq.filter_scan (
    filter_id bigint not null,
    queue_id  int not null,
    low       pgq._low not null,
    noted_at  timestamptz not null
) with (fillfactor = 50);
create index filter_scan_idx on pgq.filter_scan (filter_id, queue_id);
comment on table pgq.filter_scan is
    'Scan cursors of filters. No ready row before the rank of the cursor holds a match, among the '
    'rows that the snapshot of low could see.';
revoke all on table pgq.filter_scan from public;

-- Claims append rows and maintain() adds them up: no row is contended.
create table pgq.filter_hit (
    filter_id bigint not null,
    queue_id  int not null,
    claims    bigint not null,
    tested    bigint not null,
    matched   bigint not null,
    used_at   timestamptz not null,
    last_at   timestamptz
);
comment on table pgq.filter_hit is
    'Counters of filters. The counters of a filter are the sum over its rows.';
comment on column pgq.filter_hit.filter_id is '0: the sum of removed filters.';
comment on column pgq.filter_hit.last_at is 'When a claim last found a match.';
revoke all on table pgq.filter_hit from public;

-- The lanes of a queue that can hold a match for a filter.
create type pgq._lanes as (
    kept    int[],           -- lanes that can hold a match; null: any ready row can
    sure    int[],           -- lanes in which every message matches
    stale   int[],           -- kept lanes of other keys than the queue has now
    hashes  int[],           -- hashes that a match can have, except in stale lanes; null: any
    by_lane boolean          -- few kept lanes, or hashes: scan each of them separately
);
comment on type pgq._lanes is 'The lanes that can hold a match for a filter.';
revoke all on type pgq._lanes from public;

-- What one scan of a queue has found.
create type pgq._scan as (
    places tid[],            -- rows that hold matches
    sets   int8multirange[], -- their ids that match
    counts int[],            -- how many these are
    last   bigint,           -- rank of the last of these rows
    count  bigint            -- how many messages match
);
comment on type pgq._scan is 'Ready rows that hold matches, and the matches.';
revoke all on type pgq._scan from public;

-- The result of a scan for matches.
create type pgq._found as (
    among  tid[],            -- rows to scan next, instead of the queue
    places tid[],            -- rows that hold matches
    sets   int8multirange[], -- their ids that match; null: all of them
    counts int[],            -- how many these are
    tested bigint,           -- messages that were tested
    skipped bigint,          -- rows in which this filter is known to match nothing
    low    bigint,           -- rank from which the scan continues; null: it has reached the end
    high   bigint,           -- no match before this rank is left; null: not known
    partly bigint            -- rank of the row that holds the n-th match: the rest is not tested
);
comment on type pgq._found is 'The result of a scan for matches.';
revoke all on type pgq._found from public;
