"""NVIDIA DALI on the CPU, from the TFRecord shards and index files (written to --scratch on first use).

Its reader does not verify checksums.
"""
import os
import struct

import nvidia.dali as dali
import nvidia.dali.fn as fn
import nvidia.dali.tfrecord as tfrec
import nvidia.dali.types as types

import rounds


def indices(args):
    """Writes index files in tfrecord2idx's format: the offset and size of each record."""
    folder = args.scratch or os.path.join(args.data, 'dali_index')
    os.makedirs(folder, exist_ok=True)
    made = []
    for shard in args.files:
        made.append(os.path.join(folder, os.path.basename(shard) + '.idx'))
        with open(shard, 'rb') as f, open(made[-1], 'w') as out:
            at = 0
            while header := f.read(12):
                size = 16 + struct.unpack('<Q', header[:8])[0]
                out.write(f'{at} {size}\n')
                at += size
                f.seek(at)
    return made


WORKS = {'parse': None, 'decode_uint8': 'full', 'resize_192': 'resize', 'random_crop_192': 'random'}


@dali.pipeline_def
def pipeline(args, index):
    shuffle = args.work != 'parse'
    features = fn.readers.tfrecord(
        path=args.files, index_path=index, random_shuffle=shuffle, initial_fill=args.shuffle, name='reader',
        features={'image': tfrec.FixedLenFeature((), tfrec.string, ''),
                  'class': tfrec.FixedLenFeature([1], tfrec.int64, -1)})
    image = features['image']
    if WORKS[args.work] == 'random':
        image = fn.decoders.image_random_crop(image, device='cpu', output_type=types.RGB, random_area=[0.08, 1.0],
                                              random_aspect_ratio=[3 / 4, 4 / 3])
    elif WORKS[args.work]:
        image = fn.decoders.image(image, device='cpu', output_type=types.RGB)
    if WORKS[args.work] in ('random', 'resize'):
        image = fn.resize(image, device='cpu', size=[192, 192], interp_type=types.INTERP_LINEAR, antialias=False)
    return image, features['class']


def main():
    args = rounds.options(WORKS, __doc__)

    def batches():
        pipe = pipeline(args=args, index=indices(args), batch_size=args.batch, num_threads=args.threads,
                        device_id=None, prefetch_queue_depth=2)
        pipe.build()
        while True:
            yield pipe.run()

    rounds.run(f'dali {dali.__version__}', args, batches, lambda batch: len(batch[0]))


if __name__ == '__main__':
    main()
