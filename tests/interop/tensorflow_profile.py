"""Reads an XSpace file with TensorFlow.

Usage: tensorflow_profile.py FILE.xplane.pb OUT    writes OUT: a line per span, in the order of the file,
                                                   PLANE <tab> LINE <tab> NAME <tab> BEGIN <tab> END <tab> ARGUMENTS
                                                   in picoseconds since 1970, arguments as name=value;
                                                   first the host names, last the names that TensorBoard's trace
                                                   viewer would show
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from tensorflow.python.profiler.internal import _pywrap_profiler_plugin
from tensorflow.tsl.profiler.protobuf import xplane_pb2


def main(path, out):
    space = xplane_pb2.XSpace()
    with open(path, "rb") as f:
        space.ParseFromString(f.read())
    lines = [" ".join(space.hostnames)]
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                begin = line.timestamp_ns * 1000 + event.offset_ps
                arguments = [f"{plane.stat_metadata[s.metadata_id].name}={s.int64_value}" for s in event.stats]
                name = plane.event_metadata[event.metadata_id].name
                lines.append("\t".join([plane.name, line.name, name, str(begin), str(begin + event.duration_ps),
                                        ",".join(arguments)]))
    shown, _ = _pywrap_profiler_plugin.xspace_to_tools_data([path], "trace_viewer", {})
    names = {m.name for plane in space.planes for m in plane.event_metadata.values()}
    lines.append(",".join(sorted(name for name in names if name.encode() in shown)))
    with open(out, "w") as f:
        f.write("\n".join(lines) + "\n")


main(*sys.argv[1:])
