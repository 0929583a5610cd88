-- Locks of pgq's own, by name. Advisory locks are unsuitable: every role can take them, so a role
-- without any right could block pgq.
create table pgq.mutex (
    what text not null,
    constraint mutex_pkey primary key (what)
);
insert into pgq.mutex values ('era'), ('maintain'), ('replay'), ('right');
comment on table pgq.mutex is 'Names to lock, for work that only one transaction may do at a time.';
revoke all on table pgq.mutex from public;
