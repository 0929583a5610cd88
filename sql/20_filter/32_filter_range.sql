-- The field lies within bounds, for example {"gt": 0, "lte": 150}: all of one type.
create or replace function pgq._filter_range(scope text, path text[], bounds jsonb, at text)
returns jsonb
language plpgsql immutable parallel unsafe
set search_path = pg_catalog, pg_temp
as $$
declare
    v_bounds jsonb := bounds;
begin
    if scope = 'msg' and path[1] in ('published_at', 'expires_at') then
        select jsonb_object_agg(b.key, pgq._filter_moment(b.value, at))
        into v_bounds
        from jsonb_each(bounds) as b;
    elsif jsonb_path_exists(bounds, 'strict $.*."$now"', silent => true) then
        perform pgq._filter_error('$now is for the timestamps of msg', at,
            'Compare msg.published_at or msg.expires_at with {"$now": "-1 hour"}.');
    elsif exists (select from jsonb_each(bounds) as b
            where jsonb_typeof(b.value) not in ('string', 'number')) then
        perform pgq._filter_error('only strings and numbers have an order', at,
            'Compare with a string or a number: {"payload.amount": {"$gt": 100}}');
    elsif (select count(distinct jsonb_typeof(b.value)) from jsonb_each(bounds) as b) > 1 then
        perform pgq._filter_error('both bounds must be of one type', at,
            'Give two numbers or two strings.');
    end if;
    return pgq._filter_node('range', scope, path, v_bounds);
end
$$;
comment on function pgq._filter_range(text, text[], jsonb, text) is
    'The tree of an order test; QU004 if the bounds cannot be compared.';
