create table pgq.binding (
    binding_id int generated always as identity,
    queue_id   int not null,
    pattern    text not null,
    regex      text,
    filter     jsonb,
    scope      text,
    path       jsonpath,
    counted    boolean not null default true,
    pending    boolean not null default false,
    since      timestamptz,
    since_id   bigint,
    anchors    int not null default 0,
    created_at timestamptz not null default now(),
    constraint binding_pkey primary key (binding_id),
    constraint binding_queue_pattern_unique unique (queue_id, pattern),
    constraint binding_queue_exists foreign key (queue_id) references pgq.queue on delete cascade
);
create index binding_pattern_idx on pgq.binding (pattern) where regex is null;
comment on table pgq.binding is
    'The topics that a queue receives, and the filters that select their messages.';
comment on column pgq.binding.pattern is 'A topic, or AMQP words: * is one word, # is any number.';
comment on column pgq.binding.regex is
    'The pattern as a regular expression; null for a plain topic.';
comment on column pgq.binding.filter is 'The filter document; null receives everything.';
comment on column pgq.binding.scope is
    'The part of a message that the compiled filter reads: see pgq._filter_reads.';
comment on column pgq.binding.path is 'The compiled filter.';
comment on column pgq.binding.counted is
    'Whether matches are counted. False for the topic of the queue''s own name, to save time.';
comment on column pgq.binding.pending is
    'The subscription is not active yet. maintain() adds messages of the log since a time or an '
    'id, and activates it.';
comment on column pgq.binding.anchors is
    'How many rows of pgq.anchor the filter needs; 0: it is tested on every message.';
revoke all on table pgq.binding from public;

-- Finds filters by the values of a message. A message that has none of a filter's anchors cannot
-- match the filter. Derived from the filters: not in dumps, maintain() rebuilds them.
create table pgq.anchor (
    binding_id int not null,
    number     int not null,
    field      bigint not null,
    scope      text not null,
    path       text[] not null,
    kind       text not null,
    size       int,
    place      bigint,
    area       box,
    constraint anchor_pkey primary key (binding_id, number),
    constraint anchor_binding_exists foreign key (binding_id) references pgq.binding
        on delete cascade
);
create index anchor_field_idx on pgq.anchor (field);
create index anchor_place_idx on pgq.anchor (place) where place is not null;
create index anchor_area_idx on pgq.anchor using gist (area) where area is not null;
comment on table pgq.anchor is
    'Indexed conditions of subscription filters. A message that matches a filter satisfies at '
    'least one of them.';
comment on column pgq.anchor.field is 'Hash of the topic pattern, the scope and the path.';
comment on column pgq.anchor.kind is
    'equal, prefix (of size characters), range, text range, there (the field exists), missing, '
    'several (the field has more than one value).';
comment on column pgq.anchor.place is 'Hash of the field and the value; null for a range.';
comment on column pgq.anchor.area is 'A box: the range on the x axis, the field on the y axis.';
revoke all on table pgq.anchor from public;

-- How publishing looks up one field of the filters of a topic.
create type pgq._field as (
    field   bigint,          -- as in pgq.anchor
    scope   text,            -- headers, payload, msg
    path    text[],
    paths   jsonpath[],      -- of the payload: where the values of the field are
    equal   boolean,         -- kinds of anchors that this field has
    sizes   int[],
    ranged  boolean,
    texts   boolean,
    there   boolean,
    missing boolean,
    several boolean
);
comment on type pgq._field is 'A field by which publishing finds the filters of a topic.';
revoke all on type pgq._field from public;

-- Messages and bindings that they match; both arrays run in parallel.
create type pgq._hits as (
    binding_ids int[],
    message_ids bigint[]
);
comment on type pgq._hits is 'Messages and bindings that they match.';
revoke all on type pgq._hits from public;

-- Publishing looks up its topic here with one index probe, whatever the number of patterns. Rows of
-- an older version are ignored, and are deleted without waiting for locks, so that a change of
-- bindings blocks no publisher. Two publishers may store the same topic at once; both rows are
-- correct.
create table pgq.route (
    topic        text not null,
    version      bigint not null,
    queue_ids    int[] not null,
    binding_ids  int[] not null,
    receivers    int[] not null,
    windows      interval[] not null,
    fields       pgq._field[],
    patterns     text[],
    laned        boolean not null default false,
    replacing    boolean not null default false
);
create index route_topic_idx on pgq.route (topic, version);
comment on table pgq.route is 'The routing cache: the queues that receive a topic.';
comment on column pgq.route.version is 'The routing version that the row belongs to.';
comment on column pgq.route.queue_ids is
    'Queues that receive every message of the topic, uncounted. All of them have lanes, or none.';
comment on column pgq.route.binding_ids is
    'The bindings of the other queues that receive it, except those that are found by anchors.';
comment on column pgq.route.receivers is
    'All queues with dedup = keep that receive messages of the topic, also archives. Empty if the '
    'route uses anchors.';
comment on column pgq.route.laned is 'The queues of queue_ids have lanes.';
comment on column pgq.route.replacing is
    'A queue replaces or postpones by dedup key. Messages are stored even if other queues have '
    'had the key.';
comment on column pgq.route.windows is 'The dedup window of each of the receivers.';
comment on column pgq.route.fields is
    'Fields whose values are looked up in pgq.anchor; null: the route uses no anchors.';
comment on column pgq.route.patterns is
    'Patterns with filters on other headers, which are looked up by the name of the header.';
revoke all on table pgq.route from public;

-- Several rows, so that changes of bindings in open transactions do not wait for each other. Every
-- change adds 1 to one row. The sum of the rows identifies the changes that a snapshot sees.
create table pgq.routing (
    stripe  int not null,
    version int not null,
    constraint routing_pkey primary key (stripe)
);
insert into pgq.routing select i, 0 from pg_catalog.generate_series(1, 8) i;
comment on table pgq.routing is
    'The routing version: the sum over the rows. A change of the bindings updates one row.';
revoke all on table pgq.routing from public;
