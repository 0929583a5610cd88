-- No routine is open to PUBLIC. A role needs usage of the schema, execute on its routines, and the
-- rights to its queues that pgq.grant_queue gives.
revoke all on all routines in schema pgmq from public;
