"""The parts of benches/run.py."""
