-- The first token of leases that end in the second of that moment: 2025 is second 0, and 30 bits
-- of seconds with 23 bits of sequence stay exact in a JavaScript number.
create or replace function pgq._lease_second(moment timestamptz) returns bigint
language sql stable parallel safe
return least(greatest(floor(date_part('epoch', moment) - 1735689600), 0), 1073741822)::bigint << 23;
comment on function pgq._lease_second(timestamptz) is
    'The first lease token of the second of that moment.';
revoke all on function pgq._lease_second(timestamptz) from public;
