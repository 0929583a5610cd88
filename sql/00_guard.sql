-- Start of every built extension script: stops psql, and keeps other schemas out of search_path.
\echo Use "CREATE EXTENSION pgq" or "ALTER EXTENSION pgq UPDATE" to load this file. \quit

set local search_path = pg_catalog, pg_temp;
set local check_function_bodies = on;
