"""Makes sockets in the network namespace in which it runs, for a process outside.

``sockets.py DESCRIPTOR``: each octet that it reads from the socket of that number is a type of sockets; it
sends a new IPv4 socket of that type back.
"""

import socket
import sys

asked = socket.socket(fileno=int(sys.argv[1]))
while kind := asked.recv(1):
    with socket.socket(socket.AF_INET, kind[0]) as made:
        socket.send_fds(asked, [b"\0"], [made.fileno()])
