create type pgq._finding as (
    severity text,           -- critical or warning
    queue    text,           -- null: not about one queue
    finding  text,           -- its name, for programs
    since    timestamptz,    -- null: not known
    detail   text,
    cure     text            -- a statement that fixes it, if there is one
);
comment on type pgq._finding is 'A problem that needs an operator.';
revoke all on type pgq._finding from public;
