create table pgq.lane_choice (
    queue_id  int not null,
    key       text not null,
    used      boolean not null,
    reason    text not null,
    chosen_at timestamptz not null,
    constraint lane_choice_pkey primary key (queue_id, key)
);
comment on table pgq.lane_choice is
    'Why maintain() has added or dropped lane keys of a queue with lane_keys {auto}.';
comment on column pgq.lane_choice.used is 'The field is a lane key; false: it was dropped.';
revoke all on table pgq.lane_choice from public;
