-- pg_dump saves all state, but no caches (routes, compiled filters, anchors).
select pg_catalog.pg_extension_config_dump('pgq.queue', '');
select pg_catalog.pg_extension_config_dump('pgq.queue_queue_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.binding', '');
select pg_catalog.pg_extension_config_dump('pgq.binding_binding_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.era', '');
select pg_catalog.pg_extension_config_dump('pgq.era_number', '');
select pg_catalog.pg_extension_config_dump('pgq.message_0', '');
select pg_catalog.pg_extension_config_dump('pgq.message_1', '');
select pg_catalog.pg_extension_config_dump('pgq.message_2', '');
select pg_catalog.pg_extension_config_dump('pgq.message_id', '');
select pg_catalog.pg_extension_config_dump('pgq.lane', '');
select pg_catalog.pg_extension_config_dump('pgq.lane_lane_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.lane_choice', '');
select pg_catalog.pg_extension_config_dump('pgq.ready', '');
select pg_catalog.pg_extension_config_dump('pgq.scheduled', '');
select pg_catalog.pg_extension_config_dump('pgq.lease', '');
select pg_catalog.pg_extension_config_dump('pgq.lease_id', '');
select pg_catalog.pg_extension_config_dump('pgq.checked_lease_id', '');
select pg_catalog.pg_extension_config_dump('pgq.endless_lease_id', '');
select pg_catalog.pg_extension_config_dump('pgq.letter', '');
select pg_catalog.pg_extension_config_dump('pgq.letter_dead_letter_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.journal_0', '');
select pg_catalog.pg_extension_config_dump('pgq.journal_1', '');
select pg_catalog.pg_extension_config_dump('pgq.journal_2', '');
select pg_catalog.pg_extension_config_dump('pgq.dedup', '');
select pg_catalog.pg_extension_config_dump('pgq.group_head', '');
select pg_catalog.pg_extension_config_dump('pgq.group_line', '');
select pg_catalog.pg_extension_config_dump('pgq.group_stall', '');
select pg_catalog.pg_extension_config_dump('pgq.handled', '');
select pg_catalog.pg_extension_config_dump('pgq.handled_handled_id_seq', '');
select pg_catalog.pg_extension_config_dump('pgq.binding_hit', '');
select pg_catalog.pg_extension_config_dump('pgq.outcome', '');
select pg_catalog.pg_extension_config_dump('pgq.traffic', '');
select pg_catalog.pg_extension_config_dump('pgq.writer', '');
select pg_catalog.pg_extension_config_dump('pgq.stream', '');
select pg_catalog.pg_extension_config_dump('pgq.lineage', '');
select pg_catalog.pg_extension_config_dump('pgq.archive', '');
select pg_catalog.pg_extension_config_dump('pgq.archive_copy', '');
select pg_catalog.pg_extension_config_dump('pgq.archive_era', '');
select pg_catalog.pg_extension_config_dump('pgq.relay', '');
select pg_catalog.pg_extension_config_dump('pgq.queue_limit', '');
select pg_catalog.pg_extension_config_dump('pgq.flow', '');
select pg_catalog.pg_extension_config_dump('pgq.schedule',
    'where role is null or exists (select from pg_catalog.pg_roles r where r.oid = role)');
-- Without the rights of dropped roles: in another cluster their oids may be those of other roles.
select pg_catalog.pg_extension_config_dump('pgq.queue_right',
    'where exists (select from pg_catalog.pg_roles r where r.oid = role)');
