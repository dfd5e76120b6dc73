"""Settings and fixtures common to all tests."""

import os
import signal

# Sessions with the interfaces of their default configuration scout nowhere: no test reaches the network of
# the machine, and two that run at once do not find each other. Programs that tests start inherit it.
os.environ["ZWIRE_SCOUTING_INTERFACE"] = "none"

# A shell that starts the tests in the background has them ignore Ctrl-C, and each program that they start
# would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
