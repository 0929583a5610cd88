-- The newest journal rows: the last pages of each slot, whatever its size.
create or replace function pgq._journal_tail() returns setof pgq.journal
language sql stable
begin atomic
    select j.* from pgq.journal_0 j where j.ctid >= pgq._tail('pgq.journal_0'::regclass)
    union all
    select j.* from pgq.journal_1 j where j.ctid >= pgq._tail('pgq.journal_1'::regclass)
    union all
    select j.* from pgq.journal_2 j where j.ctid >= pgq._tail('pgq.journal_2'::regclass);
end;
comment on function pgq._journal_tail() is 'The newest journal rows.';
revoke all on function pgq._journal_tail() from public;
