-- The waiting messages of a queue that an operator's call selects.
create type pgq._selection as (
    queue_id  int,
    ids       int8multirange, -- only these; null: any
    spared    int8multirange, -- but not these
    path      jsonpath,       -- only those that match the compiled filter; null: any
    scope     text,
    dedup_key text,           -- only those with this key; null: any
    tested    boolean,        -- messages have to be read to be selected
    now       timestamptz
);
comment on type pgq._selection is 'The messages that an operator''s call selects.';
revoke all on type pgq._selection from public;

-- Waiting messages that were taken out of a queue.
create type pgq._withdrawn as (
    due_at   timestamptz,     -- -infinity: they were ready; null: they wait, as published
    attempt  int,
    failures jsonb,
    grouped  boolean,
    size     int,
    ids      int8multirange
);
comment on type pgq._withdrawn is 'Waiting messages that were taken out of a queue.';
revoke all on type pgq._withdrawn from public;
