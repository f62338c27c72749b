"""Grain with ArrayRecord files (its own format, converted from the shards to --scratch on first use) and Pillow for JPEGs.

Uses threads of one process by default; --workers N adds worker processes, to avoid the global interpreter lock.
"""
import io
import os

import numpy as np
from array_record.python import array_record_module
from PIL import Image
import grain

import rounds
import tfrecords


def array_records(args):
    folder = args.scratch or os.path.join(args.data, 'array_record')
    os.makedirs(folder, exist_ok=True)
    files = []
    for shard in args.files:
        files.append(os.path.join(folder, os.path.basename(shard) + '.array_record'))
        if os.path.exists(files[-1]):
            continue
        # One chunk per record, as its documentation recommends for random access.
        writer = array_record_module.ArrayRecordWriter(files[-1] + '.part', 'group_size:1,uncompressed')
        for record in tfrecords.records(shard):
            writer.write(record)
        writer.close()
        os.replace(files[-1] + '.part', files[-1])
    return files


def decode(record):
    image, label = tfrecords.image_and_class(record)
    return np.asarray(Image.open(io.BytesIO(image)).convert('RGB')), label


def resize(record):
    image, label = tfrecords.image_and_class(record)
    picture = Image.open(io.BytesIO(image)).convert('RGB')
    return np.asarray(picture.resize((192, 192), Image.Resampling.BILINEAR)), label


WORKS = {'raw': None, 'parse': tfrecords.image_and_class, 'decode_uint8': decode, 'resize_192': resize}


def main():
    args = rounds.options(WORKS, __doc__)

    def batches():
        source = grain.sources.ArrayRecordDataSource(array_records(args))
        data = grain.MapDataset.source(source).shuffle(seed=1).repeat()
        if WORKS[args.work] is not None:
            data = data.map(WORKS[args.work])
        # Strings of different lengths cannot be stacked.
        keep = None if args.work in ('decode_uint8', 'resize_192') else list
        data = data.to_iter_dataset(grain.ReadOptions(num_threads=args.threads, prefetch_buffer_size=2 * args.batch))
        data = data.batch(args.batch, batch_fn=keep) if keep else data.batch(args.batch)
        if args.workers:
            data = data.mp_prefetch(grain.MultiprocessingOptions(num_workers=args.workers))
        return data

    def rows(batch):
        return len(batch[0]) if isinstance(batch, tuple) else len(batch)

    name = f'grain {grain.__version__ if hasattr(grain, "__version__") else ""}'.strip()
    rounds.run(name + (f', {args.workers} processes' if args.workers else ''), args, batches, rows)


if __name__ == '__main__':
    main()
