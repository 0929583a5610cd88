-- The filter for messages to one recipient or to everybody.
create or replace function pgq.addressed_to(recipient text) returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if recipient is null then
        return '{}'::jsonb;
    end if;
    return jsonb_build_object('$or', jsonb_build_array(
        jsonb_build_object('msg.recipient', recipient),
        '{"msg.recipient": {"$isNull": true}}'::jsonb));
end
$$;
comment on function pgq.addressed_to(text) is
    'A filter for messages that are addressed to the recipient, or to no recipient (broadcast). '
    'Null selects everything.';
