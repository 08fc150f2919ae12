"""Dot product attention."""
