create type pgq.claimed as (
    lease_id       bigint,
    id             bigint,
    topic          text,
    priority       int,
    attempt        int,
    headers        jsonb,
    payload        jsonb,
    sender         text,
    recipient      text,
    reply_to       text,
    correlation_id text,
    group_key      text,
    published_at   timestamptz,
    expires_at     timestamptz,
    lease_until    timestamptz
);
comment on type pgq.claimed is 'A message in the hands of a consumer.';
revoke all on type pgq.claimed from public;

-- Sets taken from ready, in delivery order; the arrays run in parallel. Missed are rows of which
-- another transaction is just taking a part.
create type pgq._taken as (
    size     int,
    sets     int8multirange[],
    attempts int[],
    failures jsonb[],
    grouped  boolean[],
    missed   tid[]
);
comment on type pgq._taken is 'Sets on their way from ready to a lease.';
revoke all on type pgq._taken from public;
