"""Airflow 3 on pgq: queues whose messages update assets, claimed by filter."""
