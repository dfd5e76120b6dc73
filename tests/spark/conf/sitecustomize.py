"""Start of each Python process of the Spark tests, which have this folder on their PYTHONPATH.

Spark puts its own archives of pyspark and py4j first on that path. Modules in them have no bytecode, so every
worker would compile pyspark for most of a second; the installed packages are the same. For its first task a
worker would also read the directory of each archive on its path again; Spark's own jar is one of them.
"""

import importlib
import os
import sys

for archive in [entry for entry in sys.path if entry.endswith((".zip", ".jar"))]:
    sys.path.remove(archive)
    sys.path_importer_cache.pop(archive, None)

# The daemons that plan reads and writes of data sources; no setting names another module for them. They would
# fork before they import, as `warm_daemon` says of the others.
if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"] and sys.orig_argv[3].startswith("pyspark.sql."):
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    importlib.import_module(sys.orig_argv[3])
    importlib.import_module("zwire.spark")
