-- Takes messages out of a queue, whatever their state: the first step of delete, archive, set_vt.
-- Null: all messages. Returns the sets that were taken in the form of leases; those that were not
-- leased have no lease_id. Searches again, a few times, for messages that move meanwhile.
create or replace function pgmq._take(
    queue_name text, msg_ids bigint[], caller pgq.caller default current_user
) returns setof pgq.lease
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue pgq.queue := pgq._queue_for(caller, 'consume', queue_name);
    v_wanted int8multirange := coalesce(pgq._set_of(msg_ids), '{(,)}');
    v_hint bigint := nullif(current_setting(pgmq._note(queue_name), true), '')::bigint;
    v_place tid;
    v_ready pgq.ready;
    v_scheduled pgq.scheduled;
    v_lease pgq.lease;
    v_left int8multirange;
begin
    if msg_ids is null then
        v_wanted := '{(,)}';
    end if;
    for v_round in 0 .. 3 loop
        if v_round > 0 then
            for v_place in
                select r.ctid from pgq.ready r
                where r.queue_id = v_queue.queue_id and r.ids && v_wanted order by r.rank
            loop
                delete from pgq.ready r where r.ctid = v_place and r.queue_id = v_queue.queue_id
                returning r.* into v_ready;
                continue when not found;
                v_lease := row(null, null, null, v_queue.queue_id, 0, v_ready.attempt, null,
                               v_ready.grouped, false, null, null, null, v_ready.failures,
                               v_ready.ids * v_wanted, null, null, null, false)::pgq.lease;
                v_left := v_ready.ids - v_wanted;
                if v_left <> '{}' then
                    -- As in every claim, the rest of a ready row becomes a new row.
                    v_ready.rank := pgq._rank_of(pgq._rank_class(v_ready.rank), lower(v_left));
                    v_ready.ids := v_left;
                    v_ready.size := pgq._set_size(v_left);
                    v_ready.xid := pg_current_xact_id();
                    insert into pgq.ready select v_ready.*;
                    perform pgq._wake(v_queue.queue_id);
                end if;
                v_lease.size := pgq._set_size(v_lease.ids);
                v_wanted := case when msg_ids is null then v_wanted else v_wanted - v_lease.ids end;
                return next v_lease;
            end loop;
            for v_place in
                select s.ctid from pgq.scheduled s
                where s.queue_id = v_queue.queue_id and s.ids && v_wanted
            loop
                delete from pgq.scheduled s
                where s.ctid = v_place and s.queue_id = v_queue.queue_id
                returning s.* into v_scheduled;
                continue when not found;
                v_lease := row(null, null, v_scheduled.due_at, v_queue.queue_id, 0,
                               v_scheduled.attempt, null, v_scheduled.grouped, false, null, null,
                               null, v_scheduled.failures, v_scheduled.ids * v_wanted, null, null,
                               null, false)::pgq.lease;
                v_left := v_scheduled.ids - v_wanted;
                if v_left <> '{}' then
                    v_scheduled.ids := v_left;
                    v_scheduled.size := pgq._set_size(v_left);
                    insert into pgq.scheduled select v_scheduled.*;
                end if;
                v_lease.size := pgq._set_size(v_lease.ids);
                v_wanted := case when msg_ids is null then v_wanted else v_wanted - v_lease.ids end;
                return next v_lease;
            end loop;
        end if;
        -- Round 0 tries only the lease of the session's last read, which usually has the messages.
        continue when v_round = 0 and v_hint is null;
        for v_lease in
            select l.* from pgq.lease l
            where l.queue_id = v_queue.queue_id and l.ids && v_wanted
              and (v_round > 0 or l.lease_id = v_hint)
            order by l.lease_id, l.part for update
        loop
            v_left := v_lease.ids - v_wanted;
            if v_left = '{}' then
                delete from pgq.lease l
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
            else
                update pgq.lease l set ids = v_left, size = pgq._set_size(v_left)
                where l.lease_id = v_lease.lease_id and l.part = v_lease.part;
            end if;
            v_lease.ids := v_lease.ids * v_wanted;
            v_lease.size := pgq._set_size(v_lease.ids);
            v_wanted := case when msg_ids is null then v_wanted else v_wanted - v_lease.ids end;
            return next v_lease;
        end loop;
        exit when v_wanted = '{}' or msg_ids is null and v_round > 0;
    end loop;
end
$$;
comment on function pgmq._take(text, bigint[], pgq.caller) is
    'Takes messages out of a queue, whatever their state.';
