"""Start of each Python process of the Spark tests, which have this folder on their PYTHONPATH.

Spark puts its own archive of pyspark first on that path. Modules in it have no bytecode, so every worker
would compile pyspark for most of a second; the installed package is the same.
"""

import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
