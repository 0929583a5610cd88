create or replace function pgmq._headers_out(headers jsonb) returns jsonb
language sql immutable parallel safe
return case when headers = '{}' then null
            when headers ? 'x-pgmq-headers' then (headers ->> 'x-pgmq-headers')::jsonb
            else headers end;
comment on function pgmq._headers_out(jsonb) is 'The headers that the sender gave.';
