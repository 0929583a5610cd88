-- Who calls? A function with its owner's rights cannot ask for current_user, which is the owner,
-- and must not ask for session_user or the setting "role": when a superuser analyzes a table, they
-- say superuser, while the functions in that table's indexes run as the table's owner. So the
-- caller is a parameter, current_user by default: defaults are evaluated and domains are checked
-- before the function begins, with the caller's own identity, and no other value passes.
create domain pgq.caller as name not null
    constraint caller_is_current_user check (value = current_user);
comment on domain pgq.caller is
    'The role that calls a function: leave it out. It is current_user, and can be nothing else.';
-- Nobody needs it to call a function. With it one could store values, to be used by another role.
revoke all on type pgq.caller from public;

-- No foreign key: when a role drops a queue, maintain() takes away the rights to it and their
-- privileges, because whoever changes privileges keeps others from it until its transaction ends.
create table pgq.queue_right (
    queue_id int not null,
    -- By oid, so that a later role of the same name inherits nothing; shown and dumped by name.
    role     regrole not null,
    "right"  text not null,
    constraint queue_right_pkey primary key (queue_id, role, "right"),
    constraint queue_right_known check ("right" in ('publish', 'consume', 'admin'))
);
comment on table pgq.queue_right is 'What roles may do with queues: written by grant and revoke.';
comment on column pgq.queue_right.role is 'The role; its members have the right too.';
comment on column pgq.queue_right."right" is
    'publish: to the topics that the queue receives; consume: claim and look; admin: both, and '
    'change or drop the queue.';
revoke all on table pgq.queue_right from public;
