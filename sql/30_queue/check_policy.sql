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
                  and isfinite(policy.dedup_window) and isfinite(policy.max_lease)) then
            v_problem := 'intervals must be finite';
            v_hint := 'Use a long one, such as ''10 years''.';
        -- Queues share the log: an interval that no date can be moved by would stop all of them.
        when exists (
            select from (values ('lease', policy.lease), ('backoff', policy.backoff),
                         ('max_backoff', policy.max_backoff),
                         ('dedup_window', policy.dedup_window),
                         ('max_lease', policy.max_lease)) p (name, span)
            where p.span > interval '0' and p.span is distinct from
                pgq._bounded(p.span, pgq._limit('policy_years'))) then
            v_problem := format('lease, max_lease, backoff, max_backoff and dedup_window must be '
                                'at most %s years', pgq._limit('policy_years'));
            v_hint := 'No part of such an interval may be negative.';
        when policy.retention > interval '0' and policy.retention is distinct from
             pgq._bounded(policy.retention, pgq._limit('retention_years')) then
            v_problem := format('retention must be at most %s years',
                                pgq._limit('retention_years'));
            v_hint := 'No part of such an interval may be negative.';
        when policy.lease is null or policy.lease <= interval '0' then
            v_problem := 'lease must be longer than zero';
            v_hint := 'A lease is the time a consumer has for its messages, such as ''30 s''.';
        when policy.max_lease is null or policy.max_lease < policy.lease then
            v_problem := 'max_lease must not be shorter than lease';
            v_hint := 'It limits how long a consumer can hold messages by extending the lease.';
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
        when policy.dedup is null or policy.dedup not in ('keep', 'replace', 'postpone') then
            v_problem := format('unknown dedup "%s"', policy.dedup);
            v_hint := 'Use keep, replace or postpone.';
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
        else
            perform pgq._check_lane_keys(policy.lane_keys);
            return;
    end case;
    raise exception '%', v_problem using errcode = 'invalid_parameter_value', hint = v_hint;
end
$$;
comment on function pgq._check_policy(pgq.queue) is 'Raises 22023 unless the policy is valid.';
