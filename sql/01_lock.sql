-- Opens every upgrade: takes what it needs exclusively at once, or nothing. An upgrade that waited
-- for one thing and held another would end in a deadlock with whoever has them in another order;
-- this one lets go after a tenth of a second, so nobody waits for it for longer than that.
do $$
declare
    v_timeout text := pg_catalog.current_setting('lock_timeout');
    v_deadline timestamptz := pg_catalog.clock_timestamp() + interval '1 min';
    v_view regclass;
begin
    loop
        begin
            perform pg_catalog.set_config('lock_timeout', '100ms', true);
            -- For the trigger, and for the views: resetting what is not set only locks them.
            lock table pgq.message in share row exclusive mode;
            for v_view in
                select c.oid from pg_catalog.pg_class c
                where c.relnamespace = 'pgq'::regnamespace and c.relkind = 'v' order by c.oid
            loop
                execute pg_catalog.format('alter view %s reset (check_option)', v_view);
            end loop;
            exit;
        exception
            when lock_not_available or deadlock_detected then
                if pg_catalog.clock_timestamp() > v_deadline then
                    raise exception 'pgq is in use by a long transaction'
                        using errcode = 'lock_not_available',
                              hint = 'Nothing has changed. End the transaction (pg_locks shows it) '
                                     'and upgrade again.';
                end if;
                perform pg_catalog.pg_sleep(0.1 + pg_catalog.random() / 10);
        end;
    end loop;
    perform pg_catalog.set_config('lock_timeout', v_timeout, true);
end
$$;
