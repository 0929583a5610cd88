-- The filter for lists of senders and recipients, exact or by regular expression.
create or replace function pgq.entity_filter(
    from_filter text[] default null,
    to_filter text[] default null,
    broadcast_filter boolean default null,
    from_filter_types text[] default null,
    to_filter_types text[] default null
) returns jsonb
language plpgsql immutable parallel safe security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_senders jsonb := pgq._entity_test('msg.sender', from_filter, from_filter_types);
    v_recipients jsonb := pgq._entity_test('msg.recipient', to_filter, to_filter_types);
    v_addressed jsonb := coalesce(v_recipients, '[]');
begin
    -- Recipients and broadcast widen each other; senders narrow the result. A list of recipients
    -- leaves broadcasts out by itself.
    if broadcast_filter or (not broadcast_filter and v_recipients is null) then
        v_addressed := v_addressed || jsonb_build_array(
            jsonb_build_object('msg.recipient', jsonb_build_object('$isNull', broadcast_filter)));
    end if;
    return case when v_senders is null then '{}'
                else jsonb_build_object('$and', jsonb_build_array(
                    jsonb_build_object('$or', v_senders))) end
        || case when v_addressed = '[]' then '{}'
                else jsonb_build_object('$or', v_addressed) end;
end
$$;
comment on function pgq.entity_filter(text[], text[], boolean, text[], text[]) is
    'A filter from lists of senders and recipients. Each type is exact (default) or regex. A '
    'match has a sender of the list and, if recipients are given, a recipient of the list or '
    '(with broadcast_filter) no recipient. Null: no condition. broadcast_filter => false excludes '
    'messages without a recipient.';
