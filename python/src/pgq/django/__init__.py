"""Django on pgq: a backend of `django.tasks`, its worker, and a migration that installs pgq."""
