"""Importers of the traces of AMD's profilers."""

from pasta.collect.importers.rocm import rocpd as rocpd
from pasta.collect.importers.rocm import rocprof_compute_csv as rocprof_compute_csv
from pasta.collect.importers.rocm import rocprofv3_csv as rocprofv3_csv
from pasta.collect.importers.rocm import rocprofv3_json as rocprofv3_json
