-- How long a lease lasts. A stored duration of zero counts as otherwise; the rest as in _bounded.
create or replace function pgq._lease_span(span interval, otherwise interval default '30 s')
returns interval
language sql immutable parallel safe
return coalesce(nullif(pgq._bounded(span, pgq._limit('policy_years')), interval '0'), otherwise);
comment on function pgq._lease_span(interval, interval) is
    'How long a lease lasts, whatever is stored.';
