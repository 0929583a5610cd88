"""pgq in the migrations of an application: scripts that can be run repeatedly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pgq._shared.extension_files import extension_parent, extension_version

if TYPE_CHECKING:
    from sqlalchemy import TextClause

__all__ = ["Action", "script", "text"]

Action = Literal["install", "upgrade", "tle"]

_SCRIPT = """\
-- Brings pgq in this database to version {version}; changes nothing if it has that already.
-- Written by: pgq sql {action}
do $pgq_sql$
begin
    if pg_catalog.to_regprocedure('pgq.version()') is null then
{missing}
    elsif pgq.version() = '{version}' then
        return;
    elsif exists (select from pg_catalog.pg_extension where extname = 'pgq') then
        alter extension pgq update to '{version}';
        return;
    end if;
    execute $pgq_run$
{install}$pgq_run$;
end
$pgq_sql$;
"""
_MISSING = """\
        raise exception 'pgq is not installed in this database'
            using errcode = 'undefined_object', hint = 'Run what pgq sql install prints.';"""
_TLE = """\
-- Registers {name} {version} with pg_tle; can be run again. Written by: pgq sql tle
do $pgq_sql$
declare
    v_install text := $pgq_tle${install}$pgq_tle$;
begin
    if not exists (select from pgtle.available_extensions() where name = '{name}') then
        perform pgtle.install_extension('{name}', '{version}', '{about}', v_install, '{{{needs}}}');
    elsif not exists (select from pgtle.available_extension_versions()
                      where name = '{name}' and version = '{version}') then
        perform pgtle.install_extension_version_sql('{name}', '{version}', v_install);
    end if;
{updates}    perform pgtle.set_default_version('{name}', '{version}');
end
$pgq_sql$;
"""
_TLE_UPDATE = """\
    perform pgtle.uninstall_update_path_if_exists('{name}', '{old}', '{version}');
    perform pgtle.install_update_path('{name}', '{old}', '{version}', $pgq_tle${update}$pgq_tle$);
"""


def script(action: Action = "install") -> str:
    """Return one SQL statement that installs or upgrades pgq to the version of this package.

    :param action: ``install`` creates pgq without extension files, or upgrades an older version;
        ``upgrade`` raises if pgq is missing; ``tle`` registers the extensions with pg_tle, for
        CREATE EXTENSION and ALTER EXTENSION UPDATE.
    """
    if action == "tle":
        return _tle()
    version = extension_version()
    install = extension_parent() / "extension" / f"pgq--{version}.sql"
    return _SCRIPT.format(
        action=action,
        version=version,
        missing="        null;" if action == "install" else _MISSING,
        install=install.read_text(encoding="utf-8"),
    )


def _tle() -> str:
    here = extension_parent() / "extension"
    version = extension_version()
    parts = []
    for name, needs in (("pgq", "plpgsql"), ("pgq_pgmq", "pgq")):
        control = (here / f"{name}.control").read_text(encoding="utf-8")
        about = re.findall(r"^comment = '(.*)'$", control, re.MULTILINE)[0]
        updates = [
            _TLE_UPDATE.format(
                name=name,
                old=path.stem.split("--")[1],
                version=version,
                update=path.read_text("utf-8"),
            )
            for path in sorted(here.glob(f"{name}--*--{version}.sql"))
        ]
        parts.append(
            _TLE.format(
                name=name,
                version=version,
                about=about,
                needs=needs,
                install=(here / f"{name}--{version}.sql").read_text(encoding="utf-8"),
                updates="".join(updates),
            )
        )
    return "".join(parts)


def text(action: Action = "install") -> TextClause:
    """Return the script for ``op.execute`` of Alembic, with colons escaped."""
    from sqlalchemy import text

    return text(script(action).replace(":", "\\:"))
