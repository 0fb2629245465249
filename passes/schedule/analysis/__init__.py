"""Analyses of schedules."""
