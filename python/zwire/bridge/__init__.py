"""Bridges between Zenoh and other protocols."""
