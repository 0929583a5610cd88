create table pgq.archive (
    wait interval not null
);
comment on table pgq.archive is
    'One row while somebody archives the log: an era that has not been archived is kept for this '
    'long beyond its retention. No row: eras wait for nobody.';
revoke all on table pgq.archive from public;
