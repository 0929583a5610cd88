-- Whether a topic matches an AMQP pattern. Subscriptions use the same definition of wildcards.
create or replace function pgq.matches_topic(pattern text, topic text)
returns boolean
language sql immutable strict parallel safe security definer
set search_path = pg_catalog, pg_temp
return topic operator(pg_catalog.~) pgq._topic_regex(pattern);
comment on function pgq.matches_topic(text, text) is
    'Whether the topic matches the pattern. * is exactly one word, # is zero or more words, words '
    'are separated by dots, and case matters. QU004 if no topic can match the pattern.';
