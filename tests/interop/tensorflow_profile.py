"""Reads an XSpace file with TensorFlow.

Usage: tensorflow_profile.py FILE.xplane.pb OUT    writes OUT: a line per span, in the order of the file,
                                                   PLANE <tab> LINE <tab> NAME <tab> BEGIN <tab> END <tab> ARGUMENTS
                                                   in picoseconds since 1970, arguments as name=value;
                                                   first the host names, last the names that TensorBoard's trace
                                                   viewer would show, and of its overview page the average, minimum
                                                   and maximum step time, the steps, and the share of the input
"""

import os
import re
import struct
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from tensorflow.python.profiler.internal import _pywrap_profiler_plugin
from tensorflow.tsl.profiler.protobuf import xplane_pb2


def fields(message):
    """The fields of a protocol buffer, as pairs of number and value. TensorFlow's wheel lacks overview_page_pb2."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value = message[at:at + size]
            at += size
        yield key >> 3, value


def find(message, number):
    return [value for field, value in fields(message) if field == number]


def overview(path):
    page, _ = _pywrap_profiler_plugin.xspace_to_tools_data([path], "overview_page", {})
    pipeline = find(page, 2)[0]  # OverviewPage.input_analysis
    times = find(pipeline, 2)[0]  # InputPipelineAnalysisResult.step_time_summary
    average, least, most = (struct.unpack("<d", find(times, number)[0])[0] for number in (1, 3, 4))
    details = (find(step, 2)[0] for step in find(pipeline, 4))  # PerGenericStepDetails, in an Any
    names = [find(step, 14)[0].decode() for step in details]
    share = re.search(rb"because (?:only )?([\d.]+% of the total step time sampled is waiting for input)", page)
    return [f"{average:.1f} ms, {least:.1f} to {most:.1f}", ",".join(names), share[1].decode() if share else "no share"]


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
        f.write("\n".join(lines + overview(path)) + "\n")


main(*sys.argv[1:])
