-- A claim by filter leaves a row with the messages that do not match. Later claims skip these
-- rows; if there are many, they store a cursor. Each claim has its own transaction, because a
-- claim reads rows of its own transaction separately. The test counts rows.
select no_plan();
select t.at(now());

select pgq.create_queue('small', set_size => 4);
insert into pgq.message (topic, headers, payload)
select 'small', jsonb_build_object('type', case when i % 4 = 0 then 'few' else 'most' end),
       to_jsonb(i)
from generate_series(1, 1600) i;

create temporary table claims (taken bigint, rows_read bigint);
do $$
declare
    v_before bigint;
    v_taken bigint;
begin
    for i in 1 .. 300 loop
        v_before := t.rows_read('ready');
        v_taken := count(*) from pgq.claim('small', '{"type": "most"}', 4);
        insert into claims values (v_taken, t.rows_read('ready') - v_before);
        commit;
    end loop;
end
$$;
select is((select sum(taken) from claims), 1200::numeric,
    'the claims take all messages that match');
select cmp_ok((select max(rows_read) from claims), '<', 300::bigint,
    'no claim reads all the rows that earlier claims have left');
select is((select count(*) from pgq.claim('small', n => 1000)), 400::bigint,
    'messages that do not match are still ready');
select * from finish();
select pgq.drop_queue('small', force => true);
