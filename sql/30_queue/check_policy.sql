-- Raises 22023 unless the policy makes sense.
create or replace function pgq._check_policy(policy pgq.queue) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_problem text;
    v_hint text;
begin
    case
        when not (isfinite(policy.lease) and isfinite(policy.backoff)
                  and isfinite(policy.max_backoff) and isfinite(policy.retention)
                  and isfinite(policy.dedup_window)) then
            v_problem := 'intervals must be finite';
            v_hint := 'Use a long one, such as ''10 years''.';
        when policy.lease is null or policy.lease <= interval '0' then
            v_problem := 'lease must be longer than zero';
            v_hint := 'A lease is the time a consumer has for its messages, such as ''30 s''.';
        when policy.max_attempts is null or policy.max_attempts not between 1 and 1000 then
            v_problem := 'max_attempts must be between 1 and 1000';
            v_hint := 'It counts all deliveries, the first one too.';
        when policy.backoff is null or policy.backoff < interval '0' then
            v_problem := 'backoff must not be negative';
            v_hint := 'It is the delay before the first retry, such as ''1 s''.';
        when policy.max_backoff is null or policy.max_backoff < policy.backoff then
            v_problem := 'max_backoff must not be shorter than backoff';
            v_hint := 'It limits the doubling delay between retries.';
        when policy.retention is null or policy.retention < interval '0' then
            v_problem := 'retention must not be negative';
            v_hint := 'It is how long the log keeps messages, such as ''1 day''.';
        when policy.dedup_window is null or policy.dedup_window < interval '0' then
            v_problem := 'dedup_window must not be negative';
            v_hint := 'It is how long a dedup key keeps duplicates away, such as ''5 min''.';
        when policy.on_expiry is null or policy.on_expiry not in ('dead_letter', 'discard') then
            v_problem := format('unknown on_expiry "%s"', policy.on_expiry);
            v_hint := 'Use dead_letter or discard.';
        when policy.mode is null or policy.mode not in ('queue', 'archive') then
            v_problem := format('unknown mode "%s"', policy.mode);
            v_hint := 'Use queue, or archive to store messages without delivering them.';
        when policy.on_dead is null or policy.on_dead not in ('release', 'block') then
            v_problem := format('unknown on_dead "%s"', policy.on_dead);
            v_hint := 'Use release, or block to hold back a group behind its dead letter.';
        when policy.suggestions is null then
            v_problem := 'suggestions must be true or false';
            v_hint := 'True lets producers name the queue in the header "route".';
        when policy.journal is null or policy.journal not in ('all', 'failures') then
            v_problem := format('unknown journal "%s"', policy.journal);
            v_hint := 'Use all, or failures to leave acknowledgements out.';
        when policy.set_size is null or policy.set_size not between 1 and 1024 then
            v_problem := 'set_size must be between 1 and 1024';
            v_hint := 'It is the most ids in one ready row; 100 suits most queues.';
        when cardinality(policy.lane_keys) > 4 then
            v_problem := 'a queue has at most 4 lane keys';
            v_hint := 'Choose the header keys with few values that most filters look at.';
        when exists (
            select from unnest(policy.lane_keys) k
            where k is null or k !~ '^[a-zA-Z][a-zA-Z0-9_-]{0,127}$') then
            v_problem := 'a lane key must be the name of a header';
            v_hint := 'Letters, digits, _ and -, beginning with a letter, at most 128.';
        when (select count(distinct k) <> count(k) from unnest(policy.lane_keys) k) then
            v_problem := 'lane keys must differ from each other';
            v_hint := 'Name each header key once.';
        else
            return;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._check_policy(pgq.queue) is 'Raises 22023 unless the policy makes sense.';
revoke all on function pgq._check_policy(pgq.queue) from public;
