"""Programs of ``zwire demo``: a simulated fleet, a hub, a Spark job, and back; see :mod:`zwire.demo.road`."""
