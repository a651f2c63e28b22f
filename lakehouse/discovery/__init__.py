"""Inputs that have no YAML yet: reading them (inspect, survey), detecting their format, writing their YAML
(init), and checking machine, configuration and sources (doctor).
"""
