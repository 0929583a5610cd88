-- The round that all sessions make together over the lanes of a queue with limits. Its place is a
-- sequence, because others see a new value at once, and nobody waits for a transaction to end. Only
-- this file knows the sequence. With a round for each session, a tenant had 0.84 to 1.17 of its
-- fair share after 40 turns, and 0.97 to 1.07 with this one (benchmark, 60 turns: 0.95 to 1.09).
create or replace function pgq._turn(queue_id int) returns int
language sql volatile
return case when pg_sequence_last_value('pgq.turn') >> 32 = queue_id
       then (pg_sequence_last_value('pgq.turn') & 4294967295)::int end;
comment on function pgq._turn(int) is
    'The lane that had the last turn; null: another queue was claimed from since.';

create or replace function pgq._turn_set(queue_id int, lane_id int) returns bigint
language sql volatile
return setval('pgq.turn', (queue_id::bigint << 32) + lane_id);
comment on function pgq._turn_set(int, int) is 'Stores the lane that had the last turn.';
