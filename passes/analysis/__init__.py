"""Analyses: functions that read IR and return a value; they never change it."""
