-- Whether the clocks of a time zone are set forward or back within four hours of a moment.
create or replace function pgq._clock_changes(moment timestamptz, time_zone text) returns boolean
language sql stable parallel safe
return (moment - interval '4 h') at time zone time_zone + interval '8 h'
    <> (moment + interval '4 h') at time zone time_zone;
comment on function pgq._clock_changes(timestamptz, text) is
    'Whether the clocks of a time zone change near a moment.';
