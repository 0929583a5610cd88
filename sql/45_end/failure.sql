-- The failures of a message with one more at the end.
create or replace function pgq._failure(
    failures jsonb, outcome text, attempt int, claimed_at timestamptz, holder text, client inet,
    error text, now timestamptz
) returns jsonb
language sql stable parallel safe
return coalesce(failures, '[]') || jsonb_strip_nulls(jsonb_build_object(
    'outcome', outcome, 'attempt', attempt, 'claimed_at', claimed_at, 'at', now,
    'holder', holder, 'client', host(client), 'error', left(error, 1000)));
comment on function pgq._failure(
    jsonb, text, int, timestamptz, text, inet, text, timestamptz) is
    'The failures of a message with one more at the end.';
