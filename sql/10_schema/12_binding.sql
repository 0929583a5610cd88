create table pgq.binding (
    binding_id int generated always as identity,
    queue_id   int not null,
    pattern    text not null,
    regex      text,
    filter     jsonb,
    scope      text,
    path       jsonpath,
    counted    boolean not null default true,
    created_at timestamptz not null default now(),
    constraint binding_pkey primary key (binding_id),
    constraint binding_queue_pattern_unique unique (queue_id, pattern),
    constraint binding_queue_exists foreign key (queue_id) references pgq.queue on delete cascade
);
create index binding_pattern_idx on pgq.binding (pattern) where regex is null;
comment on table pgq.binding is 'Which topics a queue receives, and which of their messages.';
comment on column pgq.binding.pattern is 'A topic, or AMQP words: * is one word, # is any number.';
comment on column pgq.binding.regex is
    'The pattern as a regular expression; null for a plain topic.';
comment on column pgq.binding.filter is 'The filter document; null receives everything.';
comment on column pgq.binding.scope is 'What the compiled filter looks at.';
comment on column pgq.binding.path is 'The compiled filter.';
comment on column pgq.binding.counted is
    'Matches are counted; not those of a queue with its own topic, which would only cost time.';
revoke all on table pgq.binding from public;

-- Publishing looks up its topic here, so that it costs one index probe whatever the number of
-- patterns. Rows of an older version are ignored and swept: nothing waits for anything when a
-- binding changes. Two publishers may learn the same topic at once; either row is right.
create table pgq.route (
    topic        text not null,
    version      bigint not null,
    queue_ids    int[] not null,
    binding_ids  int[] not null,
    dedup_window interval not null
);
create index route_topic_idx on pgq.route (topic, version);
comment on table pgq.route is 'Learnt answers to: who receives this topic?';
comment on column pgq.route.version is 'The routing version that the answer belongs to.';
comment on column pgq.route.queue_ids is
    'Queues that receive every message of the topic, have no lanes and are not counted.';
comment on column pgq.route.binding_ids is 'The bindings of the other queues that receive it.';
comment on column pgq.route.dedup_window is
    'How long a dedup key counts: the longest window of the queues that receive the topic.';
revoke all on table pgq.route from public;

create table pgq.routing (
    version bigint not null
);
insert into pgq.routing values (1);
comment on table pgq.routing is 'One row: the version of all bindings together.';
revoke all on table pgq.routing from public;
