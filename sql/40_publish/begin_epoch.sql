-- Records that a writer publishes an epoch; false if it has done so before.
create or replace function pgq._begin_epoch(
    writer text, epoch bigint, query text, anew boolean, role text
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    v_writer pgq.writer;
    v_is_owner boolean := pgq._is_owner(_begin_epoch.role::name);
begin
    insert into pgq.writer as w (writer, epoch, size, published_at, query, role)
    values (_begin_epoch.writer, _begin_epoch.epoch, 0, pgq.now(), _begin_epoch.query,
            _begin_epoch.role)
    on conflict on constraint writer_pkey do update
    set epoch = excluded.epoch, published_at = excluded.published_at,
        query = coalesce(excluded.query, w.query)
    where (v_is_owner or w.role = _begin_epoch.role)
      and case when w.query <> excluded.query then _begin_epoch.anew
               else w.epoch < excluded.epoch end;
    if found then
        perform pgq._flush();
        return true;
    end if;
    select w.* into v_writer from pgq.writer w where w.writer = _begin_epoch.writer;
    if not v_is_owner and v_writer.role <> _begin_epoch.role then
        raise exception 'permission denied for writer "%"', writer
            using errcode = 'insufficient_privilege',
                  hint = 'Another role has published under this name: choose a new one.';
    end if;
    if query <> v_writer.query then
        raise exception 'writer "%" belongs to the checkpoint of another query', writer
            using errcode = 'object_not_in_prerequisite_state',
                  detail = format('It has published epoch %s of query %s, and now publishes epoch '
                                  '%s of query %s.', v_writer.epoch, v_writer.query, epoch, query),
                  hint = 'A new checkpoint needs a new writer; newCheckpoint=true publishes under '
                      'the old name all the same.';
    end if;
    if epoch < v_writer.epoch then
        raise exception 'writer "%" has published epoch % and now publishes %', writer,
            v_writer.epoch, epoch
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'A writer with a new checkpoint needs a new name.';
    end if;
    return false;
end
$$;
comment on function pgq._begin_epoch(text, bigint, text, boolean, text) is
    'Records that a writer publishes an epoch; false if it has done so before.';
