"""Payloads: types, serializers."""
