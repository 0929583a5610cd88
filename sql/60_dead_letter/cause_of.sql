-- Why a message died, as headers that the filter of a cause is tested on. Times are text in UTC, so
-- that the order of the text is the order of time.
create or replace function pgq._cause_of(letter pgq.letter) returns jsonb
language sql stable parallel safe
return jsonb_strip_nulls(jsonb_build_object(
    'reason', letter.reason, 'error', letter.error, 'attempts', letter.attempts,
    'failed_at', to_char(letter.failed_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'holder', letter.holder, 'replay_count', letter.replay_count));
comment on function pgq._cause_of(pgq.letter) is 'Why a message died, as headers for a filter.';
