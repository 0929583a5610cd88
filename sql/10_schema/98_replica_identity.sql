-- The replica identity, for logical replication, of tables without a primary key. Without it a
-- publication FOR ALL TABLES makes PostgreSQL refuse every UPDATE and DELETE. It costs nothing
-- unless wal_level is logical; then the old row is written to the WAL.
alter table pgq.lease replica identity using index lease_id_idx;
alter table pgq.ready replica identity full;
alter table pgq.scheduled replica identity full;
alter table pgq.journal replica identity full;
alter table pgq.journal_0 replica identity full;
alter table pgq.journal_1 replica identity full;
alter table pgq.journal_2 replica identity full;
alter table pgq.route replica identity full;
alter table pgq.group_stall replica identity full;
alter table pgq.filter_scan replica identity full;
alter table pgq.filter_hit replica identity full;
alter table pgq.binding_hit replica identity full;
alter table pgq.outcome replica identity full;
alter table pgq.archive replica identity full;
alter table pgq.maintenance replica identity full;
