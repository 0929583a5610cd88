-- Raises 22023 unless the text can name a topic or a queue.
create or replace function pgq._check_topic(topic text) returns void
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    if topic is null or topic = '' then
        raise exception 'a topic needs a name'
            using errcode = 'invalid_parameter_value',
                  hint = 'Use words separated by dots, such as orders.created.';
    end if;
    if length(topic) > 255 then
        raise exception 'topic "%..." is longer than 255 characters', left(topic, 40)
            using errcode = 'invalid_parameter_value',
                  hint = 'Shorten it; what varies from message to message belongs into a header.';
    end if;
    if topic !~ E'^[^[:space:][:cntrl:].*#]+(\\.[^[:space:][:cntrl:].*#]+)*$' then
        raise exception 'invalid topic "%"', topic
            using errcode = 'invalid_parameter_value',
                  hint = 'Use words separated by single dots, without spaces, * and #.';
    end if;
end
$$;
comment on function pgq._check_topic(text) is 'Raises 22023 unless the text can name a topic.';
