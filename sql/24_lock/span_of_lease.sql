-- The duration of a lease. If the stored duration is zero, the argument otherwise counts; bounds
-- are those of _bounded.
create or replace function pgq._lease_span(span interval, otherwise interval default '30 s')
returns interval
language sql immutable parallel safe
return coalesce(nullif(pgq._bounded(span, pgq._limit('policy_years')), interval '0'), otherwise);
comment on function pgq._lease_span(interval, interval) is
    'The duration of a lease, within its bounds.';
