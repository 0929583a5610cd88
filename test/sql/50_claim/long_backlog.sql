-- Whatever the backlog, a claim reads about as many rows as it takes, and at most some hundred
-- others. Messages are published in their own transactions, because a claim reads rows of its own
-- transaction separately.
select no_plan();
select t.at(now());

select pgq.create_queue('single', set_size => 1);
select count(*) from pgq.publish_batch('single', array(select to_jsonb(i)
                                                       from generate_series(1, 100000) i));
analyze pgq.ready;

-- The rows of pgq.ready that index scans have returned: in total, and for one claim.
create function t.found() returns bigint language sql volatile return (
    select sum(pg_stat_get_xact_tuples_returned(i.indexrelid))
    from pg_index i where i.indrelid = 'pgq.ready'::regclass);
create function t.found_by(queue text, n int) returns bigint language plpgsql as $$
declare
    v_before bigint := t.found();
    v_count int := count(*) from pgq.claim(queue, n => n);
begin
    if v_count <> n then
        raise exception 'got % instead of %', v_count, n;
    end if;
    return t.found() - v_before;
end $$;
select cmp_ok(t.found_by('single', n), '<=', 5 * n::bigint + 100,
    format('the %2$s claim of %1$s single messages reads few rows', n, turn))
from unnest('{1,10,100}'::int[]) n, unnest('{first,second,third}'::text[]) turn;
select pgq.create_queue('sets', set_size => 10);
select count(*) from pgq.publish_batch('sets', array(select to_jsonb(i)
                                                     from generate_series(1, 100000) i));
analyze pgq.ready;
select cmp_ok(t.found_by('sets', n), '<=', 5 * n::bigint + 100,
    format('the %2$s claim of %1$s messages from sets of ten reads few rows', n, turn))
from unnest('{1,10,100}'::int[]) n, unnest('{first,second,third}'::text[]) turn;
select * from finish();
select pgq.drop_queue('single', force => true), pgq.drop_queue('sets', force => true);
