"""Measurements that a user can repeat: what layers, networks and the corruptions cost on this machine."""
