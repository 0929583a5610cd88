-- Truncates the staging table, if it holds nothing but these tokens and no other session uses it:
-- to delete a million rows takes a fifth of the time of publishing them.
create or replace function pgq._empty_staged(tokens uuid[]) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_token uuid := '00000000-0000-0000-0000-000000000000';
begin
    -- An old snapshot does not show what others have staged since.
    if current_setting('transaction_isolation') <> 'read committed' then
        return false;
    end if;
    lock table pgq.staged in access exclusive mode nowait;
    loop
        select s.token into v_token from pgq.staged s
        where s.token > v_token order by s.token limit 1;
        exit when not found;
        if v_token <> all (tokens) then
            return false;
        end if;
    end loop;
    truncate pgq.staged;
    return true;
exception
    when lock_not_available then
        return false;
end
$$;
comment on function pgq._empty_staged(uuid[]) is
    'Truncates the staging table if all its rows have these tokens.';
