create table pgq.archive (
    wait  interval not null,
    owner text,
    until timestamptz
);
comment on table pgq.archive is
    'One row while the log is archived. It says how long an era that has not been archived is '
    'kept beyond its retention. No row: eras do not wait for an archive.';
comment on column pgq.archive.owner is 'The process that currently archives; null: none.';
comment on column pgq.archive.until is
    'The owner loses the archive at this time, unless it renews its ownership.';
revoke all on table pgq.archive from public;

-- A copy that failed halfway stays where it is. Only the last attempt can be confirmed, so no
-- attempt has to overwrite another one.
create table pgq.archive_copy (
    era     bigint not null,
    copy_id uuid not null default gen_random_uuid(),
    attempt int not null default 1,
    constraint archive_copy_pkey primary key (era)
);
comment on table pgq.archive_copy is 'Copies of eras that are still in the log.';
comment on column pgq.archive_copy.copy_id is
    'Distinguishes the copies of this era from those of other databases.';
comment on column pgq.archive_copy.attempt is
    'The last attempt to copy the era. Only this attempt can be confirmed.';
revoke all on table pgq.archive_copy from public;

create table pgq.archive_era (
    era         bigint not null,
    started_at  timestamptz not null,
    messages    bigint not null,
    checksum    bigint not null,
    low         bigint,
    high        bigint,
    old         int8multirange not null default '{}',
    path        text,
    archived_at timestamptz not null,
    constraint archive_era_pkey primary key (era)
);
comment on table pgq.archive_era is
    'Every era with a confirmed copy, and the path of the copy. Together with the live log, the '
    'copies have all messages that were published since the archive began.';
comment on column pgq.archive_era.low is 'The smallest id in the copy; null: it is empty.';
comment on column pgq.archive_era.high is 'The largest id in the copy.';
comment on column pgq.archive_era.old is
    'The ids in the copy that are not larger than all ids of earlier eras. Only these ids can '
    'also be in another copy.';
comment on column pgq.archive_era.path is 'The path of the copy, as its maker reports.';
revoke all on table pgq.archive_era from public;
