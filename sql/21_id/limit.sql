-- All tuned numbers. The planner folds a call into a constant. Tests replace this function to reach
-- a limit with few messages.
create or replace function pgq._limit(name text) returns int
language sql immutable parallel safe
return case name
    -- New rows that a claim looks up by transaction; if there are more, it begins at the first row.
    when 'late_rows' then 1000
    -- How often a second a session does upkeep and stores its low watermark, and after how many
    -- seconds it scans a queue from its first row again.
    when 'ticks' then 40
    when 'watermark_seconds' then 60
    -- A set of ids is read as one range of the log, if the range is at most so many times as large.
    when 'range_factor' then 4
    -- Rows from the head on among which fast paths look for it.
    when 'window_rows' then 64
    -- After how many seconds upkeep reads all leases and scheduled rows of a queue again.
    when 'full_seconds' then 5
    -- Rows that one upkeep within a claim handles of each kind, and messages in them.
    when 'upkeep_rows' then 100
    when 'upkeep_messages' then 2000
    -- The same for one step of maintain().
    when 'maintain_rows' then 1000
    when 'maintain_messages' then 100000
    -- Ranges of ids that one step of maintain() copies into the current era, whatever the time.
    when 'copy_ranges' then 1000
    -- Rows that a claim reads in order while expired rows are left, before it skips them.
    when 'expired_rows' then 100
    -- Messages that one step of maintain() sorts into lanes.
    when 'sort_messages' then 50000
    -- Messages of a claim by filter that fit into one lease row, whatever gaps their ids have.
    when 'one_lease_row' then 500
    -- A claim that has tested so many messages, or skipped so many rows that are known not to
    -- match, stores the scan cursor of its filter.
    when 'cursor_tests' then 500
    when 'cursor_rows' then 32
    -- Messages that filters test without a match before a queue with lane_keys {auto} adds a key.
    when 'auto_tests' then 1000
    -- Filters and lanes that are kept of a queue.
    when 'filters' then 10000
    when 'lanes' then 1000
    -- Batches of a stream whose lineage is kept.
    when 'lineage' then 1000
    -- The most messages, and pages of each slot of the audit log, that one count reads; and the
    -- most since the last count for which a reader of statistics counts them itself.
    when 'count_messages' then 2000000
    when 'count_pages' then 50000
    when 'live_messages' then 10000
    when 'live_pages' then 1000
    -- Hours for which traffic is kept.
    when 'traffic_hours' then 12
    -- Rows that cancel, purge, move and reschedule handle in one statement.
    when 'operate_rows' then 1000
    -- The fewest filtered subscriptions of a topic that are found by their anchors; the fewest
    -- filters for which a field is looked up by value; the most fields and patterns looked up.
    when 'standing_filters' then 128
    when 'field_filters' then 8
    when 'fields' then 64
    when 'field_patterns' then 16
    -- Filters whose anchors one step of maintain() rebuilds.
    when 'gc_anchors' then 200
    -- A set of suspects is redelivered in rows of its size divided by this.
    when 'suspect_split' then 10
    -- Years that a retention may last, and any other interval of a policy.
    when 'retention_years' then 100
    when 'policy_years' then 10
    -- Lanes that one claim takes from, where lanes take turns.
    when 'turns' then 2
    -- Schedules that one claim runs, and missed runs of each of them that it publishes.
    when 'schedules' then 10
    when 'schedule_runs' then 100
    -- Schedules that a consumer reads before it sleeps.
    when 'schedules_ahead' then 100
    -- Delay after which missed => 'skip' skips a run: maintain() is called about once a minute.
    when 'schedule_late_seconds' then 120
end;
comment on function pgq._limit(text) is 'Numbers that were chosen by measurement.';
