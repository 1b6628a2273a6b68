"""Policies made from other policies: until a time, or during maintenance."""
