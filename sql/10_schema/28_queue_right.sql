-- The calling role. A SECURITY DEFINER function cannot use current_user, which is the owner, and
-- must not use session_user or the setting "role": when a superuser analyzes a table, these name
-- the superuser, while the functions in that table's indexes run as the table's owner. So the
-- caller is a parameter, current_user by default: defaults are evaluated and domains are checked
-- before the function begins, with the caller's own identity, and no other value passes.
create domain pgq.caller as name not null
    constraint caller_is_current_user check (value = current_user);
comment on domain pgq.caller is
    'The role that calls a function. Leave it out: it is current_user, and no other value is '
    'accepted.';
-- No call of a function needs this right. A role that had it could store values for another role.
revoke all on type pgq.caller from public;

-- No foreign key: when a role drops a queue, maintain() removes the rights to it and revokes the
-- privileges. A transaction that changes privileges blocks others that do until it ends.
create table pgq.queue_right (
    queue_id int not null,
    -- By oid, so that a later role of the same name inherits nothing; shown and dumped by name.
    role     regrole not null,
    "right"  text not null,
    constraint queue_right_pkey primary key (queue_id, role, "right"),
    constraint queue_right_known check ("right" in ('publish', 'consume', 'admin'))
);
comment on table pgq.queue_right is 'Rights of roles to queues: written by grant and revoke.';
comment on column pgq.queue_right.role is 'The role; its members have the right too.';
comment on column pgq.queue_right."right" is
    'publish: to the topics that the queue receives; consume: claim and inspect; admin: both, and '
    'change or drop the queue.';
revoke all on table pgq.queue_right from public;
