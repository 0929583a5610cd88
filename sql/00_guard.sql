-- Opens every built extension script: no accidents with psql, no foreign objects by name.
\echo Use "CREATE EXTENSION pgq" or "ALTER EXTENSION pgq UPDATE" to load this file. \quit

set local search_path = pg_catalog, pg_temp;
set local check_function_bodies = on;
