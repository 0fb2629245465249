"""Exact analyses of tensor expressions, as sets and relations of integers (isl)."""
