-- Locks of pgq's own. Advisory locks are no choice: their numbers belong to everybody, and a role
-- without any right could hold them.
create table pgq.turn (
    what text not null,
    constraint turn_pkey primary key (what)
);
insert into pgq.turn values ('era'), ('maintain'), ('replay'), ('right');
comment on table pgq.turn is 'What only one transaction does at a time.';
revoke all on table pgq.turn from public;
