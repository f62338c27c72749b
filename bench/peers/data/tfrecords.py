"""Reader of TFRecords with tf.train.Examples without TensorFlow, to convert them to the formats of other peers."""
import struct


def records(path):
    """Yields the bytes of each record, without verifying checksums."""
    with open(path, 'rb') as f:
        while header := f.read(12):
            yield f.read(struct.unpack('<Q', header[:8])[0])
            f.read(4)


def _fields(message):
    """Yields (number, wire type, value) of each field of a protobuf message; length-delimited values are memoryviews."""
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
        if key & 7 == 2:
            size = varint()
            yield key >> 3, 2, message[at:at + size]
            at += size
        elif key & 7 == 0:
            yield key >> 3, 0, varint()
        else:
            raise ValueError('unexpected wire type in an Example')


def image_and_class(record):
    """Returns the features `image` (bytes) and `class` (int) of an Example."""
    found = {}
    for _, _, features in _fields(memoryview(record)):
        for _, _, entry in _fields(features):
            parts = {number: value for number, _, value in _fields(entry)}
            for kind, _, values in _fields(parts[2]):  # Feature: 1 bytes_list, 3 int64_list
                for _, wire, value in _fields(values):
                    if kind == 3 and wire == 2:  # packed
                        value = value[0]
                    found[bytes(parts[1]).decode()] = bytes(value) if kind == 1 else value
    return found['image'], found['class']
