-- The limits of a queue: the given ones, otherwise those that it has. 0 and '' remove a limit. Null
-- if no limit is left; 22023 if they are invalid.
create or replace function pgq._limits(
    queue pgq.queue, max_leased int, rate text, burst int, lane_max_leased int, lane_rate text,
    lane_burst int, fair boolean
) returns pgq.queue_limit
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_limit pgq.queue_limit;
    v_problem text;
    v_hint text;
begin
    select l.* into v_limit from pgq.queue_limit l where l.queue_id = queue.queue_id;
    v_limit.queue_id := queue.queue_id;
    v_limit.max_leased := nullif(coalesce(max_leased, v_limit.max_leased), 0);
    v_limit.rate := nullif(coalesce(rate, v_limit.rate), '');
    v_limit.burst := nullif(coalesce(burst, v_limit.burst), 0);
    v_limit.lane_max_leased := nullif(coalesce(lane_max_leased, v_limit.lane_max_leased), 0);
    v_limit.lane_rate := nullif(coalesce(lane_rate, v_limit.lane_rate), '');
    v_limit.lane_burst := nullif(coalesce(lane_burst, v_limit.lane_burst), 0);
    v_limit.fair := coalesce(fair, v_limit.fair, false);
    v_limit.step := pgq._rate_step(v_limit.rate);
    v_limit.lane_step := pgq._rate_step(v_limit.lane_rate);
    case
        when least(v_limit.max_leased, v_limit.lane_max_leased, v_limit.burst,
                   v_limit.lane_burst) < 0 then
            v_problem := 'a limit must not be negative';
            v_hint := 'Use 0 for no limit.';
        when v_limit.burst is not null and v_limit.rate is null
             or v_limit.lane_burst is not null and v_limit.lane_rate is null then
            v_problem := 'burst needs a rate';
            v_hint := 'It is how many messages may be claimed at once after a pause.';
        when queue.lane_keys is null and (v_limit.fair or num_nonnulls(
                 v_limit.lane_max_leased, v_limit.lane_rate) > 0) then
            v_problem := 'fair and the limits of lanes need lane_keys';
            v_hint := 'Name what a lane is, such as lane_keys => ''{tenant}''.';
        else
            if v_limit.fair or num_nonnulls(v_limit.max_leased, v_limit.rate,
                                            v_limit.lane_max_leased, v_limit.lane_rate) > 0
            then
                return v_limit;
            end if;
            return null;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._limits(pgq.queue, int, text, int, int, text, int, boolean) is
    'The limits of a queue, with changes.';
