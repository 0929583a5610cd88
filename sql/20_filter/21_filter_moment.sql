-- A timestamp operand as epoch seconds, or {"now": seconds} for a moment relative to now.
-- Only ISO 8601 is read, in UTC if no zone is given, so that no session setting can matter.
create or replace function pgq._filter_moment(operand jsonb, at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set intervalstyle = 'postgres'
as $$
declare
    v_hint constant text :=
        'Write "2030-01-31", "2030-01-31T12:00:00Z", or {"$now": "-1 hour"} for a moment from now.';
    v_text text := operand #>> '{}';
    v_seconds numeric;
begin
    if jsonb_typeof(operand) = 'object' and operand ? '$now' then
        if operand - '$now' <> '{}' or jsonb_typeof(operand -> '$now') <> 'string' then
            perform pgq._filter_error('$now takes one interval', at,
                'Write {"$now": "-1 hour"}, and {"$now": "0 s"} for now.');
        end if;
        v_seconds := extract(epoch from (operand ->> '$now')::interval);
        if v_seconds not between -1e12 and 1e12 then
            perform pgq._filter_error('the interval is too long', at, v_hint);
        end if;
        return jsonb_build_object('now', v_seconds);
    end if;
    if jsonb_typeof(operand) is distinct from 'string' or v_text !~ (E'^\\d{4}-\\d{2}-\\d{2}'
            || E'([T ]\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,6})?)?( ?(Z|[+-]\\d{2}(:?\\d{2})?))?)?$') then
        perform pgq._filter_error('the operand must be a timestamp', at, v_hint);
    end if;
    return to_jsonb(extract(epoch from v_text::timestamptz));
exception
    when data_exception then
        perform pgq._filter_error('the operand is not a valid moment', at, v_hint);
        return null;  -- not reached
end
$$;
comment on function pgq._filter_moment(jsonb, text) is
    'A timestamp or {"$now": interval} as a number that can be compared; QU004 if it is neither.';
