-- Publishes the answer to a message, to its reply_to topic.
create or replace function pgq.reply(
    message_id bigint, payload jsonb, headers jsonb default '{}', sender text default null,
    caller pgq.caller default current_user
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_question pgq.message;
    v_queues int[] := pgq._visible_queues(caller);
begin
    select m.* into v_question from pgq.message m where m.id = reply.message_id;
    -- For roles that do not consume the message, it does not exist.
    if not found or (v_queues is not null and not pgq._is_received(v_queues, v_question)) then
        raise exception 'message % is not in the log', coalesce(message_id::text, 'null')
            using errcode = 'no_data_found',
                  hint = 'Answer while you hold it, or within the queue''s retention.';
    end if;
    if v_question.reply_to is null then
        raise exception 'message % wants no reply', message_id
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'A question is published with reply_to, the topic for its answer.';
    end if;
    -- The asking role needs the right to publish to reply_to itself: an answer by the owner must
    -- not send a message to a topic that the asking role cannot publish to.
    if v_question.publisher is not null then
        if to_regrole(quote_ident(v_question.publisher)) is null then
            raise exception 'the role that published message % is gone', message_id
                using errcode = 'insufficient_privilege',
                      hint = 'Publish the answer with pgq.publish, if you know where it belongs.';
        elsif not pgq._is_owner(v_question.publisher::name) then
            perform pgq._require_topic(v_question.publisher::name, v_question.reply_to);
        end if;
    end if;
    return pgq.publish(
        topic => v_question.reply_to, payload => reply.payload, headers => reply.headers,
        sender => coalesce(reply.sender, v_question.recipient), recipient => v_question.sender,
        correlation_id => coalesce(v_question.correlation_id, reply.message_id::text),
        caller => reply.caller);
end
$$;
comment on function pgq.reply(bigint, jsonb, jsonb, text, pgq.caller) is
    'Publishes a reply to the reply_to topic of a message, addressed to its sender, with its '
    'correlation_id (or its id, if it has none). 42501 unless the role that published the request '
    'may publish to that topic, too. Returns the id of the reply.';
