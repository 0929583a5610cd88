-- A token bucket is stored as the time when it will be full. Its size is the burst: a tenth of the
-- messages of its interval unless given.
create or replace function pgq._burst(rate text, burst int) returns int
language sql immutable parallel safe
return coalesce(burst, greatest(1, split_part(rate, '/', 1)::int / 10));
comment on function pgq._burst(text, int) is 'The size of a token bucket.';

create or replace function pgq._tokens(full_at timestamptz, step float8, burst int, now timestamptz)
returns int
language sql immutable parallel safe
return floor(burst - greatest(0, extract(epoch from full_at - now)::float8 / step) + 1e-6)::int;
comment on function pgq._tokens(timestamptz, float8, int, timestamptz) is
    'How many tokens a bucket has.';

create or replace function pgq._tokens_at(full_at timestamptz, step float8, burst int, n int)
returns timestamptz
language sql immutable parallel safe
return full_at - make_interval(secs => (burst - n) * step);
comment on function pgq._tokens_at(timestamptz, float8, int, int) is
    'When a bucket has n tokens.';
