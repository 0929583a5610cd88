create type pgq._finding as (
    severity text,           -- critical or warning
    queue    text,           -- null: not about one queue
    finding  text,           -- its name, for programs
    since    timestamptz,    -- null: not known
    detail   text,
    cure     text            -- a statement, if there is one that cures it
);
comment on type pgq._finding is 'Something that somebody should look at.';
revoke all on type pgq._finding from public;
