-- The newest messages: the last pages of each slot, whatever its size.
create or replace function pgq._log_tail() returns setof pgq.message
language sql stable
begin atomic
    select m.* from pgq.message_0 m where m.ctid >= pgq._tail('pgq.message_0'::regclass)
    union all
    select m.* from pgq.message_1 m where m.ctid >= pgq._tail('pgq.message_1'::regclass)
    union all
    select m.* from pgq.message_2 m where m.ctid >= pgq._tail('pgq.message_2'::regclass);
end;
comment on function pgq._log_tail() is 'The newest messages.';
revoke all on function pgq._log_tail() from public;
