-- What pgq can measure: the names, in the way of Prometheus, and what they mean. A counter only
-- grows, until its queue is dropped or the database is restored without it; what can shrink, such
-- as a count over the journal, is a gauge.
create or replace view pgq._metric as
select m.name, m.kind, m.help
from (values
    ('pgq_info', 'gauge', 'Always 1; the label says the version of the installed code.'),
    ('pgq_in_recovery', 'gauge', '1 on a standby.'),
    -- queues
    ('pgq_ready_messages', 'gauge', 'Messages that can be claimed.'),
    ('pgq_scheduled_messages', 'gauge', 'Delayed messages and retries that are not due yet.'),
    ('pgq_leased_messages', 'gauge', 'Messages in flight: claimed and not ended.'),
    ('pgq_waiting_messages', 'gauge',
        'Messages behind others of their ordering group; 10001 means more.'),
    ('pgq_dead_messages', 'gauge', 'Dead letters.'),
    ('pgq_counts_exact', 'gauge',
        '0 if a queue has so many rows of state that its counts are estimates from a sample.'),
    ('pgq_oldest_ready_seconds', 'gauge',
        'Age of the oldest message that can be claimed; 0 if there is none.'),
    ('pgq_oldest_dead_seconds', 'gauge',
        'How long ago the oldest dead letter failed; 0 if there is none.'),
    ('pgq_paused', 'gauge', '1 while claims return nothing because the queue is paused.'),
    ('pgq_published_messages_per_second', 'gauge',
        'Messages that the queue received, over the last one to two minutes.'),
    ('pgq_acked_messages_per_second', 'gauge',
        'Acknowledged messages over the last one to two minutes; missing if the queue''s journal '
        'records failures only.'),
    ('pgq_failed_messages_per_second', 'gauge',
        'Messages refused, buried or timed out, over the last one to two minutes.'),
    ('pgq_leases', 'gauge', 'Leases: claims that are being worked on; of many an estimate.'),
    ('pgq_oldest_lease_seconds', 'gauge',
        'Age of the oldest lease; of many leases the oldest of a sample; 0 if there is none.'),
    ('pgq_expired_leases', 'gauge',
        'Leases past their end that no claim and no maintain() has taken back yet.'),
    ('pgq_unending_leases', 'gauge', 'Named leases without an end.'),
    ('pgq_unending_leased_messages', 'gauge', 'Messages that named leases without an end hold.'),
    ('pgq_oldest_unending_lease_seconds', 'gauge',
        'Age of the oldest named lease without an end; 0 if there is none.'),
    ('pgq_lanes', 'gauge', 'Lanes: combinations of values of the queue''s lane keys.'),
    ('pgq_lanes_full', 'gauge', '1 if new values share the overflow lane: too many lanes.'),
    ('pgq_waiters', 'gauge', 'Consumers that sleep until a message comes.'),
    ('pgq_retries_total', 'counter', 'Messages given back for another attempt.'),
    ('pgq_lease_expiries_total', 'counter', 'Messages taken back from expired leases.'),
    ('pgq_dead_letters_total', 'counter', 'Messages that became dead letters, by reason.'),
    ('pgq_expired_messages_total', 'counter', 'Messages that expired before they were delivered.'),
    ('pgq_released_messages_total', 'counter', 'Messages given back by their consumers unharmed.'),
    ('pgq_replayed_messages_total', 'counter', 'Dead letters that were replayed.'),
    ('pgq_discarded_messages_total', 'counter', 'Dead letters that were discarded.'),
    ('pgq_cancelled_messages_total', 'counter', 'Messages that were cancelled or purged.'),
    ('pgq_moved_messages_total', 'counter', 'Messages that were moved to another queue.'),
    ('pgq_filter_claims_total', 'counter',
        'Claims with a filter that looked at messages or found some.'),
    ('pgq_filter_tested_messages_total', 'counter', 'Messages that filters of claims tested.'),
    ('pgq_filter_matched_messages_total', 'counter', 'Messages that filters of claims took.'),
    ('pgq_subscription_matches_total', 'counter', 'Messages that a subscription received.'),
    ('pgq_findings', 'gauge',
        'What somebody should look at: how many rows pgq.findings() has, by queue (empty: none), '
        'finding and severity.'),
    -- the database
    ('pgq_published_messages_total', 'counter',
        'Message ids given, of all topics; those of rolled back transactions included.'),
    ('pgq_claims_total', 'counter',
        'Lease tokens given, of all queues; begins anew after some millions.'),
    ('pgq_era', 'gauge', 'The number of the current era.'),
    ('pgq_era_bytes', 'gauge', 'Size of a slot of the log, or of its journal, with indexes.'),
    ('pgq_era_age_seconds', 'gauge', 'How long ago the era in a slot began; 0 if it is empty.'),
    ('pgq_era_overdue_seconds', 'gauge',
        'How long a slot should have been emptied already: somebody is in the way, an archive is '
        'late, or nobody claims or calls maintain().'),
    ('pgq_retention_seconds', 'gauge', 'The longest retention of any queue, which the log has.'),
    ('pgq_table_bytes', 'gauge', 'Size of a table of state, with indexes.'),
    ('pgq_table_dead_rows', 'gauge', 'Rows of a table that vacuum has still to remove.'),
    ('pgq_staged_messages', 'gauge',
        'Messages staged and neither published nor discarded; of many an estimate.'),
    ('pgq_oldest_staged_seconds', 'gauge',
        'Age of the oldest staged message, of many the oldest of a sample; its writer may never '
        'come back. 0 if there is none.'),
    ('pgq_oldest_snapshot_seconds', 'gauge',
        'Age of the transaction that holds back vacuum most, by the kind of its holder.'),
    ('pgq_oldest_snapshot_transactions', 'gauge',
        'How many transactions have begun since the oldest one that vacuum has to keep rows for, '
        'by the kind of its holder.'),
    ('pgq_snapshot_holder_seconds', 'gauge',
        'The oldest holders of snapshots: sessions and prepared transactions of a minute or more.'),
    ('pgq_hidden_snapshots', 'gauge',
        'Sessions with a snapshot whose age the caller may not see: grant it pg_read_all_stats.')
) m (name, kind, help);
comment on view pgq._metric is 'What pgq can measure.';
revoke all on table pgq._metric from public;
