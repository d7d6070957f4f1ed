"""Measurements that back what the documentation says; run from a checkout."""
