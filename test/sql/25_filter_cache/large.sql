-- A large filter is decompressed once for a claim, not for each message.
begin;
select no_plan();

create function pg_temp.large() returns jsonb language sql immutable as $$
    select jsonb_build_object('k', jsonb_agg('value number ' || i)) from generate_series(1, 999) i
$$;
select pgq.create_queue('q');
select is_empty('select * from pgq.claim(''q'', pg_temp.large())', 'a claim keeps its filter');
select isnt(pg_column_compression(f.path), null, 'the stored filter is compressed')
from pgq.filter f;
select is(pg_column_compression((pgq._find_filter(pg_temp.large(), null)).path), null,
    'the filter that a claim uses is not');

select * from finish();
rollback;
