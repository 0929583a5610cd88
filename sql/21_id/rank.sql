-- All arithmetic on ranks is in this file.
--
-- A rank is one number that sorts as (priority descending, redeliveries before first deliveries,
-- lowest id). Each priority has 2^50 ranks: the lower half for redeliveries, the upper half for
-- first deliveries. Because it is one number, an index scan can start anywhere in a queue.
create or replace function pgq._rank(priority int, back boolean, id bigint) returns bigint
language sql immutable parallel safe
return -priority::bigint * 1125899906842624
    + case when back then 0 else 562949953421312 end + id;
comment on function pgq._rank(int, boolean, bigint) is 'The rank of a message in its queue.';

create or replace function pgq._rank_class(rank bigint) returns bigint
language sql immutable parallel safe
return rank >> 49;
comment on function pgq._rank_class(bigint) is
    'The number that all ranks of one priority and one kind of delivery share.';

create or replace function pgq._rank_of(class bigint, id bigint) returns bigint
language sql immutable parallel safe
return (class << 49) + id;
comment on function pgq._rank_of(bigint, bigint) is 'The rank of a message within a class.';

create or replace function pgq._rank_id(rank bigint) returns bigint
language sql immutable parallel safe
return rank & 562949953421311;
comment on function pgq._rank_id(bigint) is 'The lowest message id of a row with that rank.';

create or replace function pgq._rank_is_back(rank bigint) returns boolean
language sql immutable parallel safe
return (rank >> 49) & 1 = 0;
comment on function pgq._rank_is_back(bigint) is 'Whether the rank is one of a redelivery.';

create or replace function pgq._rank_first() returns bigint
language sql immutable parallel safe
return -9223372036854775808;
comment on function pgq._rank_first() is 'A rank that sorts before all others.';

create or replace function pgq._rank_last() returns bigint
language sql immutable parallel safe
return 9223372036854775807;
comment on function pgq._rank_last() is 'A rank that sorts after all others.';
