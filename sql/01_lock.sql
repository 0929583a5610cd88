-- Start of every upgrade: takes all exclusive locks at once, or none. If an upgrade held one lock
-- and waited for another, it could deadlock with a session that takes them in another order. This
-- statement gives up after a tenth of a second and releases its locks, so that other sessions do
-- not wait longer.
do $$
declare
    v_timeout text := pg_catalog.current_setting('lock_timeout');
    v_deadline timestamptz := pg_catalog.clock_timestamp() + interval '1 min';
    v_view regclass;
begin
    loop
        begin
            perform pg_catalog.set_config('lock_timeout', '100ms', true);
            -- For the trigger, and for the views: to reset an option that is not set only locks.
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
